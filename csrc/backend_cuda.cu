#include "backend.h"
#include "bound/contention_run.h"
#include "bound/run.h"
#include "bound/strategy_run.h"
