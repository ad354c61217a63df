"""The messages of Chakra's execution traces, and files of them.

The messages are made when they are first needed, from the table below: no generated code, and no compiler of Protocol
Buffers where topoflow is installed. Fields that are not in the table are passed over. A file is a GlobalMetadata and
then Nodes, each after its length as a varint.

Source: mlcommons/chakra schema/protobuf/et_def.proto, src/third_party/utils/protolib.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

PACKAGE = "topoflow.chakra"
# Of an attribute's value, in the order of their numbers: 3 for a double, 4 for a list of them, 5 for a float, ...
KINDS = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
# message -> (field, number, type); a type in brackets is repeated, a capital is a message.
MESSAGES = {
    "IOInfo": (("values", 1, "string"), ("shapes", 2, "string"), ("types", 3, "string")),
    "GlobalMetadata": (("version", 1, "string"), ("attr", 2, "[AttributeProto]")),
    "Node": (
        *(("id", 1, "uint64"), ("name", 2, "string"), ("type", 3, "int32")),
        *(("ctrl_deps", 4, "[uint64]"), ("data_deps", 5, "[uint64]")),
        *(("start_time_micros", 6, "uint64"), ("duration_micros", 7, "uint64")),
        *(("inputs", 8, "IOInfo"), ("outputs", 9, "IOInfo"), ("attr", 10, "[AttributeProto]")),
    ),
}
METADATA, COMPUTE, SEND, RECEIVE, COLLECTIVE = 1, 4, 5, 6, 7  # types of a Node
# Numbers of CollectiveCommType; REDUCE_SCATTER_BLOCK is MPI's name for what all others call reduce_scatter.
COLLECTIVES = (
    *("all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter"),
    *("reduce_scatter", "barrier"),
)


@cache
def message_classes() -> dict[str, Any]:
    """Return the class of each message by its name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    described = descriptor_pb2.FileDescriptorProto(name=f"{PACKAGE}.proto", package=PACKAGE, syntax="proto3")
    for name, fields in {**_attribute_messages(), **MESSAGES}.items():
        message = described.message_type.add(name=name)
        for field, number, kind in fields:
            _add(message, field, number, kind)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
            for member in message.field:
                if member.name != "name":
                    member.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described)
    names = ("AttributeProto", *MESSAGES)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in names}


def _attribute_messages() -> dict[str, tuple[tuple[str, int, str], ...]]:
    numbers = [(kind, 3 + 2 * at) for at, kind in enumerate(KINDS)]
    values = [(f"{kind}_val", at, kind) for kind, at in numbers]
    lists = [(f"{kind}_list", at + 1, f"{kind.capitalize()}List") for kind, at in numbers]
    list_messages = {f"{kind.capitalize()}List": (("values", 1, f"[{kind}]"),) for kind in KINDS}
    return {**list_messages, "AttributeProto": (("name", 1, "string"), *values, *lists)}


def _add(message: Any, field: str, number: int, kind: str) -> None:
    plain = kind.strip("[]")
    added = message.field.add(name=field, number=number, label=3 if kind.startswith("[") else 1)
    if plain in KINDS:
        added.type = added.Type.Value(f"TYPE_{plain.upper()}")
    else:
        added.type, added.type_name = added.TYPE_MESSAGE, f".{PACKAGE}.{plain}"


def read(name: str, data: bytes) -> Iterator[Any]:
    """The GlobalMetadata and the Nodes. Raises ``ValueError`` that names the file, the message and the law."""
    from google.protobuf.message import DecodeError

    at, number = 0, 0
    while at < len(data):
        place = f"{name}: message {number}"
        size, start = _varint(place, data, at)
        at = start + size
        if at > len(data):
            raise ValueError(f"{place}: must be {size} bytes long, got the {len(data) - start} that the file still has")
        message = message_classes()["Node" if number else "GlobalMetadata"]()
        try:
            message.ParseFromString(data[start:at])
        except DecodeError as error:
            raise ValueError(f"{place}: must be a message of Chakra, got {len(data[start:at])} other bytes") from error
        yield message
        number += 1


def _varint(place: str, data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at``, seven bits a byte with the lowest first, and where what follows begins."""
    value = 0
    for position, byte in enumerate(data[at : at + 5]):
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return value, at + position + 1
    raise ValueError(f"{place}: must begin with its length in at most 5 bytes, got {data[at : at + 5].hex()}")


def write(messages: Iterable[Any]) -> bytes:
    """Return the content of a file of ``messages``."""
    data = bytearray()
    for message in messages:
        content = message.SerializeToString()
        size = len(content)
        while size > 0x7F:
            data.append(0x80 | size & 0x7F)
            size >>= 7
        data.append(size)
        data += content
    return bytes(data)


def attribute(name: str, kind: str, value: Any) -> Any:
    """An AttributeProto of one of the ``KINDS``."""
    return message_classes()["AttributeProto"](name=name, **{f"{kind}_val": value})


def attributes(message: Any) -> dict[str, Any]:
    """Return the values of a message's attributes by name; that of a list is a list."""
    values = {}
    for field in message.attr:
        kind: str = field.WhichOneof("value") or ""
        value: Any = getattr(field, kind, None)
        values[field.name] = list(value.values) if kind.endswith("_list") else value
    return values
