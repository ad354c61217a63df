// Messages over point-to-point links in ns-3: each is cut into packets, which its first node sends one after the other,
// and every node sends on by the message's path. Without IP: a packet's tag says which message it is of and how far it
// has come, so that nothing is added to what links carry but the two bytes of PPP, for which sizes make room.
//
//   ns3_world < WORLD     links, flows; then on each line: a source, a target, B/s and s of a link; bytes and the
//                         number of links of a message, and these links; all in one stream of words
//   prints                CPU s of the run, the packets that all links sent, and s when each message has arrived
#include <ns3/core-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>

#include <cstdint>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <vector>

using namespace ns3;

namespace {

constexpr uint32_t kPpp = 2;  // B that PointToPointNetDevice puts before a packet

struct Link {
  uint32_t source, target;
  Ptr<PointToPointNetDevice> device;
};

struct Message {
  uint64_t left;  // B
  std::vector<uint32_t> path;
  double finish;
};

class Place : public Tag {
 public:
  static TypeId GetTypeId() {
    static const TypeId id = TypeId("topoflow::Place").SetParent<Tag>().AddConstructor<Place>();
    return id;
  }
  TypeId GetInstanceTypeId() const override { return GetTypeId(); }
  uint32_t GetSerializedSize() const override { return 8; }
  void Serialize(TagBuffer out) const override {
    out.WriteU32(message);
    out.WriteU32(hop);
  }
  void Deserialize(TagBuffer in) override {
    message = in.ReadU32();
    hop = in.ReadU32();
  }
  void Print(std::ostream& out) const override { out << message << '/' << hop; }

  uint32_t message = 0, hop = 0;
};

std::vector<Link> links;
std::vector<Message> messages;
uint64_t sent = 0;

void send(const Ptr<Packet>& packet, const Place& place) {
  packet->AddPacketTag(place);
  ++sent;
  const Ptr<PointToPointNetDevice>& device = links[messages[place.message].path[place.hop]].device;
  if (!device->Send(packet, device->GetBroadcast(), 0x0800)) NS_FATAL_ERROR("a queue was full");
}

bool receive(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&) {
  Place place;
  packet->PeekPacketTag(place);
  Message& message = messages[place.message];
  ++place.hop;
  if (place.hop < message.path.size()) {
    const Ptr<Packet> on = packet->Copy();
    on->RemoveAllPacketTags();
    send(on, place);
    return true;
  }
  message.left -= packet->GetSize() + kPpp;
  if (message.left == 0) message.finish = Simulator::Now().GetSeconds();
  return true;
}

void offer(uint32_t number, uint32_t size) {
  Place place;
  place.message = number;
  for (uint64_t left = messages[number].left; left > 0;) {
    const auto taken = static_cast<uint32_t>(left < size ? left : size);
    send(Create<Packet>(taken - kPpp), place);
    left -= taken;
  }
}

}  // namespace

int main() {
  Time::SetResolution(Time::PS);
  uint32_t nodes, count, flows, size;
  std::cin >> nodes >> count >> flows >> size;
  NodeContainer all;
  all.Create(nodes);
  ObjectFactory queues("ns3::DropTailQueue<Packet>");
  queues.Set("MaxSize", StringValue("4000000000p"));
  for (uint32_t i = 0; i < count; ++i) {
    Link link;
    uint64_t bits;
    int64_t latency;  // ps
    std::cin >> link.source >> link.target >> bits >> latency;
    const Ptr<PointToPointChannel> channel = CreateObject<PointToPointChannel>();
    channel->SetAttribute("Delay", TimeValue(PicoSeconds(latency)));
    for (const uint32_t end : {link.source, link.target}) {  // a channel has two ends; only the first one sends
      const Ptr<PointToPointNetDevice> device = CreateObject<PointToPointNetDevice>();
      device->SetAddress(Mac48Address::Allocate());
      device->SetMtu(65535);
      device->SetQueue(queues.Create<Queue<Packet>>());
      device->SetDataRate(DataRate(bits));
      all.Get(end)->AddDevice(device);
      device->Attach(channel);
      device->SetReceiveCallback(MakeCallback(&receive));
      if (end == link.source && !link.device) link.device = device;
    }
    links.push_back(link);
  }
  for (uint32_t i = 0; i < flows; ++i) {
    Message message{};
    uint32_t hops;
    std::cin >> message.left >> hops;
    message.path.resize(hops);
    for (uint32_t& hop : message.path) std::cin >> hop;
    messages.push_back(message);
    Simulator::Schedule(Seconds(0), &offer, i, size);
  }
  const std::clock_t begin = std::clock();
  Simulator::Run();
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::cout << std::setprecision(17) << seconds << ' ' << sent;
  for (const Message& message : messages) std::cout << ' ' << message.finish;
  std::cout << '\n';
  Simulator::Destroy();
}
