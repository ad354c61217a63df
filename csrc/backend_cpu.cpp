#include "backend.h"
#include "bound/run.h"
