// A kernel of packets on a GPU, in a file of its own: nvcc compiles several at the same time.
#include "packet/run.h"

namespace topoflow::BACKEND::packet {

template int64_t run_kind<GeneralModel>(const PacketBatch& batch);

}  // namespace topoflow::BACKEND::packet
