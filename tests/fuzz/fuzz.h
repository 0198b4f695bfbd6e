#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's entry; main.c calls it for each file it is given. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
