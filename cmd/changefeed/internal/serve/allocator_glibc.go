//go:build cgo && linux

package serve

/*
#include <malloc.h>

// return_large_blocks does nothing in C libraries other than glibc.
static void return_large_blocks(int bytes) {
#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, bytes);
#endif
}
*/
import "C"

// largeBlock is the size in bytes from which C's allocator takes blocks from the system
// and returns them one by one.
const largeBlock = 256 << 10

// returnLargeBlocks makes C's allocator return large blocks to the system.
//
// Without it, glibc keeps freed blocks of up to 32 MiB, because each freed block raises
// the size from which it returns blocks. The store's cache and its memtables are C
// memory. With documents of 2 MB, a server with --memory-limit 256 took more than 300
// MiB. A fixed size prevents that.
func returnLargeBlocks() { C.return_large_blocks(largeBlock) }
