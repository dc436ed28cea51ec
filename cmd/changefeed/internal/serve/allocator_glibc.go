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

// largeBlock is the size, in bytes, of blocks that C's allocator takes from the system and gives back one by one.
const largeBlock = 256 << 10

// returnLargeBlocks has C's allocator give large blocks back to the system.
//
// Without it, glibc keeps freed blocks of up to 32 MiB for later: each freed block raises the size from which it
// gives blocks back. The store's cache and its memtables are C memory, and with documents of 2 MB a server with
// --memory-limit 256 took more than 300 MiB. A fixed size ends that.
func returnLargeBlocks() { C.return_large_blocks(largeBlock) }
