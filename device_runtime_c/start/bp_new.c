/* SPDX-License-Identifier: Apache-2.0 */
/* What compiled C++ needs of its library: operator new and delete, by malloc and free, and the end
 * of a call of a pure virtual function. In a library of its own, and only for toolchains whose C++
 * library boardprof does not link; what the user's code or libraries define comes first. */

#include <stddef.h>

void *malloc(size_t size);
void free(void *block);
_Noreturn void abort(void);

/* The mangled name of size_t (Itanium C++ ABI, 5.1.5.2). */
#if __SIZE_WIDTH__ == __LONG_WIDTH__ && __SIZE_WIDTH__ > __INT_WIDTH__
#define BP_SIZE "m"
#else
#define BP_SIZE "j"
#endif

/* operator new never returns NULL, so a full heap ends the call. */
void *bp_new(size_t size) __asm__("_Znw" BP_SIZE);
void *bp_new(size_t size) {
    void *block = malloc(size != 0 ? size : 1);
    if (block == NULL) {
        abort();
    }
    return block;
}

void *bp_new_array(size_t size) __asm__("_Zna" BP_SIZE);
void *bp_new_array(size_t size) {
    return bp_new(size);
}

void *bp_new_nothrow(size_t size, const void *tag) __asm__("_Znw" BP_SIZE "RKSt9nothrow_t");
void *bp_new_nothrow(size_t size, const void *tag) {
    (void)tag;
    return malloc(size != 0 ? size : 1);
}

void *bp_new_array_nothrow(size_t size, const void *tag) __asm__("_Zna" BP_SIZE "RKSt9nothrow_t");
void *bp_new_array_nothrow(size_t size, const void *tag) {
    return bp_new_nothrow(size, tag);
}

void bp_delete(void *block) __asm__("_ZdlPv");
void bp_delete(void *block) {
    free(block);
}

void bp_delete_array(void *block) __asm__("_ZdaPv");
void bp_delete_array(void *block) {
    free(block);
}

void bp_delete_sized(void *block, size_t size) __asm__("_ZdlPv" BP_SIZE);
void bp_delete_sized(void *block, size_t size) {
    (void)size;
    free(block);
}

void bp_delete_array_sized(void *block, size_t size) __asm__("_ZdaPv" BP_SIZE);
void bp_delete_array_sized(void *block, size_t size) {
    (void)size;
    free(block);
}

_Noreturn void bp_pure_virtual(void) __asm__("__cxa_pure_virtual");
void bp_pure_virtual(void) {
    abort();
}
