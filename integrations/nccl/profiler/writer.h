// Writes records as JSON, one object a line, to one file per process. Whatever goes wrong is said once on stderr; the
// job goes on.
#pragma once

#include <stdbool.h>
#include <stdint.h>

uint64_t now(void);  // ns of the host's monotonic clock

// Opens the file and starts the writing thread if no communicator is open. False: nothing is recorded.
bool open_writer(void);
// The counterpart: when the last communicator is closed, what was left is written and the thread ends.
void close_writer(void);
// Whether records are taken at the moment.
bool is_writing(void);
