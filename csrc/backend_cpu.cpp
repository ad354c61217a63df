#include "backend.h"
#include "bound/run.h"
#include "bound/strategy_run.h"
#include "fluid/piece.h"
