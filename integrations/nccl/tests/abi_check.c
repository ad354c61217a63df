// Compiles only if abi/nccl_abi.h says what a real nccl.h says.
#include <nccl.h>
// After it: without types of its own.
#include "../abi/nccl_abi.h"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 9)
ncclResult_t ncclCommRevoke(ncclComm_t, int);  // of later versions
#endif

#define SAME_FUNCTION(name, parameters) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(&name), ncclResult_t(*) parameters), #name);
NCCL_FUNCTIONS(SAME_FUNCTION)

#define SAME_CONSTANT(name, value) _Static_assert((name) == (value), #name);
NCCL_CONSTANTS(SAME_CONSTANT)

_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int) &&
                   sizeof(ncclRedOp_t) == sizeof(int),
               "enums");
_Static_assert(ncclNumOps == 5, "reductions");
