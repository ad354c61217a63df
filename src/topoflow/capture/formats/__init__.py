"""One module per trace format. A new format is a new file here, and nothing else.

Each module has

    def matches(source: Source) -> bool       # is it mine? by content, not by name; must not raise
    def parse(source: Source) -> list[Part]   # what the file says, rank by rank; ValueError "place: law, got value"

``Source`` gives the unpacked bytes and, if it is JSON, the parsed document. A ``Part`` holds Compute spans and
``Operation``s in the order of issue; what the file does not say stays None, never a guess: ``topoflow.capture.merge``
completes it from another file of the same rank, or says what is missing. What is left out is counted in
``Part.counts``.
Damaged input must end in a ValueError: ``topoflow.fields.Fields`` reads JSON objects that way, and
``tests/capture/test_import_damage.py`` throws damaged files at every module found here.
"""
