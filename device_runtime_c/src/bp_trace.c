/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: trace records in a ring, and the running statistics of ranges. SPEC.md 5.12.
 *
 * A record is a word, delta << 8 | id, and for some ids a value. `delta` is the time since the
 * record before, in ticks of the trace clock. The clock is read when interrupts are off already, so
 * that the order of records is that of their times. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "boardprof/bp_trace.h"
#include "bp_internal.h"

#if BP_CFG_TRACE

#include "bp_arch.h"

#if defined(__GNUC__) && !defined(__clang__)
#define BP_APART __attribute__((noinline, noclone))
#else
#define BP_APART __attribute__((noinline))
#endif

#define BP_RARE(condition) (__builtin_expect((condition), 0))

volatile uint32_t bp_tracing;

#define BP_INLINE __attribute__((always_inline)) static inline

/* Statistics alone set the sign, so that a range finds out with one comparison. */
BP_INLINE void bp_trace_set(uint32_t what) {
    bp_tracing = what == BP_TRACE_STATISTICS ? what | 0x80000000u : what;
}

bp_trace_ring_t bp_trace_ring[BP_CFG_TRACE_CORES] BP_TRACE_KEPT;
#if !BP_CFG_TRACE_AT
uint32_t bp_trace_words[BP_CFG_TRACE_CORES][BP_TRACE_WORDS] BP_TRACE_KEPT;
#endif

#if BP_CFG_TRACE_CORES > 1
#define BP_RING (&bp_trace_ring[bp_arch_core()])
/* The records must be in memory before the reader on another core sees that they are there. */
#define BP_PUBLISH() __atomic_thread_fence(__ATOMIC_RELEASE)
#else
#define BP_RING (&bp_trace_ring[0])
#define BP_PUBLISH() __asm__ volatile("" ::: "memory")
#endif

/* Where a lock keeps other threads or cores out, it does not nest, and may be refused
 * (arch/posix/bp_arch.h). Elsewhere it masks interrupts, and nests. */
#ifdef BP_ARCH_HAS_THREADS
static uint32_t bp_trace_refused; /* events without a lock; the ring does not know of them yet */
#endif

/// The clock ///

#if BP_CFG_TRACE_CLOCK == 0 && !BP_ARCH_HAS_CYCLES32
#error "this core has no cycle counter: set BP_CFG_TRACE_CLOCK=1 for bp_port_ticks"
#endif
#if BP_CFG_TRACE_CLOCK == 2 && !defined(BP_ARCH_INSTRUCTIONS32_SOURCE)
#error "this core has no counter of instructions: set BP_CFG_TRACE_CLOCK=1 for bp_port_ticks"
#endif

static inline bp_trace_time_t bp_trace_clock(void) {
#if BP_CFG_TRACE_CLOCK == 0
    return bp_arch_cycles32();
#elif BP_CFG_TRACE_CLOCK == 1
    return (bp_trace_time_t)bp_port_ticks();
#elif BP_CFG_TRACE_CLOCK == 2
    return bp_arch_instructions32();
#else
    return *(const volatile uint32_t *)(uintptr_t)BP_CFG_TRACE_CLOCK;
#endif
}

bp_trace_time_t bp_trace_time(void) {
    return bp_trace_clock();
}

/* How many times 2^32 ticks have passed, if the clock has more than 32 bits. */
static inline uint32_t bp_trace_wraps(bp_trace_time_t delta) {
    return (uint32_t)((uint64_t)delta >> 32);
}
#define BP_TRACE_WRAPPED_WORDS (sizeof(bp_trace_time_t) > 4 ? 2u : 0u)

/// Records ///

/* What a record adds to the check of a ring that is overwritten, and what the place where the ring
 * stands adds. One bit of any of these changes it. */
BP_INLINE uint32_t bp_trace_mix_inlined(uint32_t word, uint32_t value) {
    return word + 3 * value;
}

uint32_t bp_trace_mix(uint32_t word, uint32_t value) {
    return bp_trace_mix_inlined(word, value);
}

uint32_t bp_trace_place(const bp_trace_ring_t *ring) {
    return ring->before * 3u + (uint32_t)ring->last * 5u + (uint32_t)(uintptr_t)ring->at * 7u;
}

BP_INLINE uint32_t *bp_trace_put(uint32_t *at, uint32_t word, uint32_t value) {
    at[0] = word;
    at[1] = value;
    return at + 2;
}

/* In a ring that is overwritten each record has two words, so that it can be read backwards from
 * the newest one. The check changes by what the new record adds and the old one added, and by what
 * bp_trace_place does. */
BP_INLINE void bp_trace_overwrite(bp_trace_ring_t *ring, bp_trace_time_t now, uint32_t word,
                                  uint32_t value) {
    uint32_t *at = ring->at;
    uint32_t check = ring->check + bp_trace_mix_inlined(word - at[0], value - at[1]);
    check += (uint32_t)(now - ring->last) * 5u + 8u * 7u;
    at = bp_trace_put(at, word, value);
    if (BP_RARE(at == ring->begin + BP_TRACE_WORDS)) {
        at = ring->begin;
        ring->before += BP_TRACE_WORDS;
        check += BP_TRACE_WORDS * 3u - BP_TRACE_WORDS * 4u * 7u;
    }
    ring->at = at;
    ring->last = now;
    ring->check = check;
}

#ifdef BP_ARCH_HAS_THREADS
/* Before any record, so that DROPPED tells of them. */
void bp_trace_forget_refused(void) {
    __atomic_store_n(&bp_trace_refused, 0, __ATOMIC_RELAXED);
}

void bp_trace_count_refused(void) {
    bp_trace_ring_t *ring = BP_RING;
    uint32_t refused = __atomic_exchange_n(&bp_trace_refused, 0, __ATOMIC_RELAXED);
    ring->dropped += refused;
    ring->pending += refused;
}
static inline bool bp_trace_has_refused(void) {
    return __atomic_load_n(&bp_trace_refused, __ATOMIC_RELAXED) != 0;
}
#else
static inline void bp_trace_count_refused(void) {
}
static inline bool bp_trace_has_refused(void) {
    return false;
}
#endif

/* Of several cores, SYNC relates a core's clock to bp_port_ticks. It comes before the first record,
 * before one that is long after the last one, and now and then when the ring is looked after. */
#if BP_TRACE_OWN_CLOCKS
#define BP_SYNC_WORDS 4u
#define BP_SYNC_EVERY 0x100000u /* ticks; sooner they tell nothing new */

static bool bp_trace_sync_is_due(const bp_trace_ring_t *ring, bp_trace_time_t now) {
    if (ring->at == ring->begin && ring->before == 0) {
        return true; /* the first record */
    }
    bool is_late = (now - ring->last) >> 24 != 0 && ring->synced != now;
    return is_late || now - ring->synced >= BP_SYNC_EVERY;
}

static uint32_t *bp_trace_put_sync(bp_trace_ring_t *ring, uint32_t *at, bp_trace_time_t now) {
    uint64_t ticks = bp_port_ticks();
    ring->synced = now;
    at = bp_trace_put(at, BP_TRACE_SYNC, (uint32_t)(ticks >> 32));
    return bp_trace_put(at, BP_TRACE_SYNC, (uint32_t)ticks);
}

static inline bool bp_trace_begins_lap(const bp_trace_ring_t *ring) {
    return ring->at == ring->begin;
}
#else
#define BP_SYNC_WORDS 0u
static inline bool bp_trace_sync_is_due(const bp_trace_ring_t *ring, bp_trace_time_t now) {
    (void)ring, (void)now;
    return false;
}
static inline uint32_t *bp_trace_put_sync(bp_trace_ring_t *ring, uint32_t *at,
                                          bp_trace_time_t now) {
    (void)ring, (void)now;
    return at;
}
static inline bool bp_trace_begins_lap(const bp_trace_ring_t *ring) {
    (void)ring;
    return false;
}
#endif

__attribute__((noinline)) static void
bp_trace_overwrite_one(bp_trace_ring_t *ring, bp_trace_time_t now, uint32_t word, uint32_t value) {
    bp_trace_overwrite(ring, now, word, value);
}

/* Not usual: a long time since the record before, a wide number, or the clock is to be related. */
static void bp_trace_overwrite_more(bp_trace_ring_t *ring, uint32_t id, uint32_t value,
                                    bp_trace_time_t now, uint32_t words) {
    uint32_t delta = (uint32_t)(now - ring->last);
    uint32_t wraps = bp_trace_wraps(now - ring->last);
    uint32_t took = 0;
    bool relates = BP_TRACE_OWN_CLOCKS && (delta >> 24 != 0 || bp_trace_begins_lap(ring));
    if (ring->pending != 0) {
        bp_trace_overwrite_one(ring, now, BP_TRACE_DROPPED, ring->pending);
        ring->pending = 0;
    }
    if (wraps != 0) {
        bp_trace_overwrite_one(ring, now, BP_TRACE_WRAPPED, wraps);
    }
    if (relates) {
        uint32_t sync[4] = {0};
        (void)bp_trace_put_sync(ring, sync, now);
        bp_trace_overwrite_one(ring, now, sync[0], sync[1]);
        bp_trace_overwrite_one(ring, now, sync[2], sync[3]);
        took = (uint32_t)(bp_trace_clock() - now);
    }
    if (relates || delta >> 24 != 0) {
        bp_trace_overwrite_one(ring, now, delta << 8 | BP_TRACE_LONG, took << 8 | delta >> 24);
        delta = 0;
    }
    if (id >> 8 != 0) {
        bp_trace_overwrite_one(ring, now, delta << 8 | BP_TRACE_WIDE, id);
        id = BP_TRACE_VALUE;
        delta = 0;
    }
    if (id != BP_TRACE_VALUE || words > 1) {
        bp_trace_overwrite_one(ring, now, delta << 8 | id, value);
    }
}

/* The record of a number of more than a byte has that as a value. */
static void bp_trace_wide(bp_trace_ring_t *ring, uint32_t id, uint32_t value, bp_trace_time_t now,
                          uint32_t words) {
    uint32_t delta = (uint32_t)(now - ring->last);
    uint32_t took = (uint32_t)(bp_trace_clock() - now);
    uint32_t *at = ring->at;
    ring->last = now;
    at = bp_trace_put(at, delta << 8 | BP_TRACE_LONG, took << 8 | delta >> 24);
    at = bp_trace_put(at, BP_TRACE_WIDE, id);
    if (words > 1) {
        at = bp_trace_put(at, BP_TRACE_VALUE, value);
    }
    BP_PUBLISH();
    ring->at = at;
}

/* Return where the longest record fits, with DROPPED and `more` words before it: in this lap, or at
 * the beginning of the next one. NULL: the event is dropped. A writer that is a lap ahead of the
 * reader is known by standing before it, so it must not reach it. */
BP_INLINE uint32_t *bp_trace_make_room(bp_trace_ring_t *ring, uint32_t more) {
    uint32_t *at = ring->at, *limit = ring->read;
    uint32_t words = more + 8;
    if (at >= limit) {
        uint32_t *stop = ring->begin + BP_TRACE_WORDS;
        if (at + words <= stop) {
            limit = stop + 1;
        } else {
            ring->lap_end = at;
            at = ring->begin;
        }
    }
    uint32_t pending = ring->pending;
    if (at + words >= limit) {
        ring->end = ring->begin; /* the next one comes here, too */
        ring->pending = pending + 1;
        ring->dropped++;
        if (BP_RARE(ring->mode == BP_TRACE_STOP)) {
            bp_trace_set(bp_tracing & (uint32_t)BP_TRACE_STATISTICS);
        }
        return NULL;
    }
    ring->end = limit - 2;
    if (BP_RARE(pending != 0)) {
        ring->pending = 0;
        at = bp_trace_put(at, BP_TRACE_DROPPED, pending);
    }
    return at;
}

/* `id` is 2 * the number, + 1 if there is a value. */
static void bp_trace_unusual(uint32_t id, uint32_t value, uintptr_t before, bp_trace_time_t now);

/* What is unusual and rare: a number of more than a byte, a clock that has wrapped or is to be
 * related, or a ring that is overwritten after a long time. */
__attribute__((noinline)) static void bp_trace_rare(uint32_t id, uint32_t value, uintptr_t before,
                                                    bp_trace_time_t now) {
    bp_trace_ring_t *ring = BP_RING;
    uint32_t words = 1u + (id & 1u);
    bp_trace_count_refused();
    if (ring->mode == BP_TRACE_OVERWRITE) {
        bp_trace_overwrite_more(ring, id >> 1, value, now, words);
        bp_arch_unlock(before);
        return;
    }
    bool relates = bp_trace_sync_is_due(ring, now);
    uint32_t more = BP_TRACE_WRAPPED_WORDS + (relates ? BP_SYNC_WORDS : 0u);
    uint32_t *at = bp_trace_make_room(ring, more);
    if (at != NULL) {
        uint32_t wraps = bp_trace_wraps(now - ring->last);
        if (relates) {
            at = bp_trace_put_sync(ring, at, now);
        }
        if (wraps != 0) {
            at = bp_trace_put(at, BP_TRACE_WRAPPED, wraps);
            ring->last += (bp_trace_time_t)((uint64_t)wraps << 32);
        }
        ring->at = at;
        if (id >> 9 == 0) {
            /* The same code as for other late records: what it takes is known. */
            bp_trace_unusual(id, value, before, now);
            return;
        }
        bp_trace_wide(ring, id >> 1, value, now, words);
    }
    bp_arch_unlock(before);
}

/* LONG comes before the record, and says how long it has taken up to there: the host must leave
 * that out of ranges. What follows takes as much more with a value as in bp_trace_locked. So it is
 * there twice, and the compiler must not merge the two. */
BP_INLINE void bp_trace_put_late(bp_trace_ring_t *ring, uint32_t *at, bp_trace_time_t now,
                                 uint32_t delta, uint32_t value, uint32_t words, uintptr_t before) {
    at[1] = (uint32_t)(bp_trace_clock() - now) << 8 | delta >> 24;
    if (words > 1) {
        at[3] = value;
    }
    BP_PUBLISH();
    ring->at = at + 2 + words;
    bp_arch_unlock(before);
    /* No instructions: without them the compiler joins the end of one copy, or of both, to that of
     * another path, by a jump that takes time. */
    if (words > 1) {
        __asm__ volatile("/* two words */");
    } else {
        __asm__ volatile("/* one word */");
    }
}

/* What is unusual: a long time since the record before, no room before the end of the lap, or a
 * ring that is overwritten. */
BP_APART static void bp_trace_unusual(uint32_t id, uint32_t value, uintptr_t before,
                                      bp_trace_time_t now) {
    bp_trace_ring_t *ring = BP_RING;
    uint32_t delta = (uint32_t)(now - ring->last);
    bool is_rare = id >> 9 != 0 || bp_trace_wraps(now - ring->last) != 0;
    if (BP_RARE(is_rare) || BP_RARE(bp_trace_has_refused()) || bp_trace_sync_is_due(ring, now)) {
        bp_trace_rare(id, value, before, now);
        return;
    }
    uint32_t *at = ring->at;
    if (at + 2 >= ring->end) {
        if (ring->mode == BP_TRACE_OVERWRITE) {
            if (BP_RARE(delta >> 24 != 0) || bp_trace_begins_lap(ring)) {
                bp_trace_rare(id, value, before, now);
                return;
            }
            bp_trace_overwrite(ring, now, delta << 8 | id >> 1, value);
            bp_arch_unlock(before);
            return;
        }
        at = bp_trace_make_room(ring, 0);
        if (at == NULL) {
            bp_arch_unlock(before);
            return;
        }
    }
    ring->last = now;
    at[0] = delta << 8 | BP_TRACE_LONG;
    at[2] = id >> 1;
    if ((id & 1u) != 0) {
        bp_trace_put_late(ring, at, now, delta, value, 2, before);
    } else {
        bp_trace_put_late(ring, at, now, delta, 0, 1, before);
    }
}

/* The usual record. It is inlined into all that record something. */
BP_INLINE void bp_trace_locked(uintptr_t id, uint32_t value, uint32_t words, uintptr_t before) {
    bp_trace_ring_t *ring = BP_RING;
    bp_trace_time_t now = bp_trace_clock();
    bp_trace_time_t delta = now - ring->last;
    uint32_t *at = ring->at;
    if (BP_RARE((delta >> 24 | (uint32_t)id >> 8) != 0) || BP_RARE(at >= ring->end) ||
        BP_RARE(bp_trace_has_refused())) {
        bp_trace_unusual((uint32_t)id << 1 | (words - 1), value, before, now);
        return;
    }
    ring->last = now;
    at[0] = (uint32_t)delta << 8 | (uint32_t)id;
    if (words > 1) {
        at[1] = value;
    }
    BP_PUBLISH();
    ring->at = at + words;
    bp_arch_unlock(before);
}

/* `events` is how many are dropped if the lock cannot be had. */
static inline bool bp_trace_lock(uintptr_t *before, uint32_t events) {
    *before = bp_arch_lock();
#ifdef BP_ARCH_HAS_THREADS
    if (bp_arch_is_refused(*before)) {
        __atomic_fetch_add(&bp_trace_refused, events, __ATOMIC_RELAXED);
        return false;
    }
#else
    (void)events;
#endif
    return true;
}

BP_INLINE void bp_trace_usual(uintptr_t id, uint32_t value, uint32_t words) {
    uintptr_t before;
    if (bp_trace_lock(&before, 1)) {
        bp_trace_locked(id, value, words, before);
    }
}

void bp_trace_mark(uintptr_t id) {
    bp_trace_usual(id, 0, 1);
}

void bp_trace_value(uintptr_t id, uint32_t value) {
    bp_trace_usual(id, value, 2);
}

#ifdef BP_ARCH_STAYS_LOCKED
static void bp_trace_more(uintptr_t id, uint32_t value) {
    bp_trace_locked(id, value, 2, BP_ARCH_STAYS_LOCKED);
}
#else
#define bp_trace_more bp_trace_value
#endif

/* The address in the image's file: where that is loaded is not known to the host. */
static inline uintptr_t bp_trace_caller(const void *caller) {
#ifdef BP_ARCH_IMAGE_BEGIN
    uintptr_t place = (uintptr_t)caller - BP_ARCH_IMAGE_BEGIN;
    return place < BP_ARCH_IMAGE_END - BP_ARCH_IMAGE_BEGIN ? place : 0;
#else
    return (uintptr_t)caller;
#endif
}

#if UINTPTR_MAX > UINT32_MAX
/* HIGH has the upper half, unless that is 0. If HIGH is dropped, so is the lower half, which alone
 * would be another address. If only the lower half is dropped, the next one has a HIGH in any case,
 * since it would get this one. */
static void bp_trace_whole(uintptr_t id, uintptr_t value) {
    static bool is_open[BP_CFG_TRACE_CORES];
    bp_trace_ring_t *ring = BP_RING;
    bool *open = &is_open[ring - bp_trace_ring];
    uint32_t dropped = ring->dropped;
    if (value >> 32 != 0 || *open) {
        *open = true;
        bp_trace_more(BP_TRACE_HIGH, (uint32_t)(value >> 32));
        if (ring->dropped != dropped) { /* one event, which is counted now */
            return;
        }
    }
    bp_trace_more(id, (uint32_t)value);
    *open = *open && ring->dropped != dropped;
}

void bp_trace_address(uintptr_t id, uintptr_t address) {
    uintptr_t before;
    if (bp_trace_lock(&before, 1)) {
        bp_trace_whole(id, address);
        bp_arch_unlock(before);
    }
}
#else
#define bp_trace_whole(id, value) bp_trace_more(id, (uint32_t)(value))
#endif

/* Records that no interrupt takes apart. */
void bp_trace_alloc(const void *block, size_t size, const void *caller) {
    uintptr_t before;
    if (!bp_trace_lock(&before, 3)) {
        return;
    }
    bp_trace_whole(BP_TRACE_ALLOC, (uintptr_t)block);
    bp_trace_whole(BP_TRACE_SIZE, size);
    bp_trace_whole(BP_TRACE_CALLER, bp_trace_caller(caller));
    bp_arch_unlock(before);
}

#if BP_CFG_TRACE_HEAP

/// Live memory ///

static uint32_t bp_live_blocks;
static size_t bp_live_bytes;

/* Where the lock may be refused, something else may be changing them. */
#ifdef BP_ARCH_HAS_THREADS
#define BP_LIVE_ADD(counter, n) ((void)__atomic_fetch_add(&(counter), (n), __ATOMIC_RELAXED))
#else
#define BP_LIVE_ADD(counter, n) ((void)((counter) += (n)))
#endif

/* Returns whether to record events. What is live is counted in any case. */
static bool bp_live_lock(uintptr_t *before, uint32_t events) {
    *before = bp_arch_lock();
    bool records = (bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0;
#ifdef BP_ARCH_HAS_THREADS
    if (bp_arch_is_refused(*before)) {
        __atomic_fetch_add(&bp_trace_refused, records ? events : 0, __ATOMIC_RELAXED);
        return false;
    }
#else
    (void)events;
#endif
    return records;
}

static void bp_live_take(bool records, const void *block, size_t bytes, size_t held,
                         const void *caller) {
    if (block != NULL) {
        BP_LIVE_ADD(bp_live_blocks, 1u);
        BP_LIVE_ADD(bp_live_bytes, held);
    }
    if (records) {
        bp_trace_whole(BP_TRACE_ALLOC, (uintptr_t)block);
        bp_trace_whole(BP_TRACE_SIZE, bytes);
        bp_trace_whole(BP_TRACE_CALLER, bp_trace_caller(caller));
    }
}

static void bp_live_give(bool records, const void *block, size_t held) {
    BP_LIVE_ADD(bp_live_blocks, UINT32_MAX);
    BP_LIVE_ADD(bp_live_bytes, (size_t)0 - held);
    if (records) {
        bp_trace_whole(BP_TRACE_FREE, (uintptr_t)block);
        bp_trace_whole(BP_TRACE_SIZE, held);
    }
}

void bp_heap_taken(const void *block, size_t bytes, size_t held, const void *caller) {
    uintptr_t before;
    bool records = bp_live_lock(&before, 3);
    bp_live_take(records, block, bytes, held, caller);
    bp_arch_unlock(before);
}

void bp_heap_given(const void *block, size_t held) {
    uintptr_t before;
    bool records = bp_live_lock(&before, 2);
    bp_live_give(records, block, held);
    bp_arch_unlock(before);
}

void bp_heap_replaced(const void *old, size_t old_held, const void *block, size_t bytes,
                      size_t held, const void *caller) {
    uintptr_t before;
    bool records = bp_live_lock(&before, 5);
    bp_live_give(records, old, old_held);
    bp_live_take(records, block, bytes, held, caller);
    bp_arch_unlock(before);
}

#endif

/// What is recorded ///

/* With the lock, since a probe that finds no room may stop the recording of events. */
void bp_trace_switch(uint32_t off, uint32_t on) {
    uintptr_t before = bp_arch_lock_always();
    bp_trace_set(((bp_tracing & ~off) | on) & BP_TRACE_WHAT);
#if BP_CFG_TRACE_HEAP
    if ((on & (uint32_t)BP_TRACE_EVENTS) != 0) {
        bp_trace_more(BP_TRACE_LIVE, bp_live_blocks);
        bp_trace_whole(BP_TRACE_SIZE, bp_live_bytes);
    }
#endif
    bp_arch_unlock(before);
}

/// Statistics ///

bp_slot_t *bp_slots; /* the one that was entered last; the first one is next to it */

/* Whether a lock was had. If not, `passes` are lost. A signal handler's pass then loses its begin
 * and its end alike. After a time-out there may be one without the other, so statistics end. */
static inline bool bp_slot_has_lock(bp_slot_t *slot, uintptr_t lock, uint32_t passes) {
#ifdef BP_ARCH_HAS_THREADS
    if (bp_arch_is_refused(lock)) {
        __atomic_fetch_add(&slot->lost, passes, __ATOMIC_RELAXED);
        if (lock == BP_ARCH_TIMED_OUT) {
            bp_trace_set(bp_tracing & (uint32_t)BP_TRACE_EVENTS);
        }
        return false;
    }
#else
    (void)slot, (void)lock, (void)passes;
#endif
    return true;
}

__attribute__((noinline)) static void bp_slot_clear(bp_slot_t *slot) {
    slot->count = 0;
    slot->least = UINT32_MAX;
    slot->most = 0;
    slot->limit = 0;
    slot->sum[0] = slot->sum[1] = 0;
    slot->squares[0] = slot->squares[1] = 0;
    slot->lost = 0;
    slot->depth = 0;
    slot->flags = 0;
    slot->closed = slot;
}

/* The `next` of all but the last one never changes again, so a list may be walked without a lock.
 * Ranges that are entered meanwhile come after the last one. */
bp_slot_t *bp_slots_now(bp_slot_t **last) {
    uintptr_t before = bp_arch_lock_always();
    bp_slot_t *first = *last = bp_slots;
    if (first != NULL) {
        first = first->next;
    }
    bp_arch_unlock(before);
    return first;
}

__attribute__((noinline)) static void bp_slot_register_locked(bp_slot_t *slot, uintptr_t id) {
    if (slot->next != NULL) {
        return;
    }
    bp_slot_clear(slot);
    slot->id = (uint16_t)id;
    if (bp_slots == NULL) {
        slot->next = slot;
    } else {
        slot->next = bp_slots->next;
        bp_slots->next = slot;
    }
    bp_slots = slot;
}

static void bp_slot_register(bp_slot_t *slot, uintptr_t id) {
    uintptr_t before = bp_arch_lock();
    if (bp_slot_has_lock(slot, before, 0)) {
        bp_slot_register_locked(slot, id);
        bp_arch_unlock(before);
    }
}

/* In `closed`, while passes overlap. */
#define BP_OVERLAPPING ((bp_slot_t *)1)

/* A range that several tasks enter has one slot, which any instruction of one may find half-way
 * changed by another. So interrupts are off while it changes. The functions for what is unusual
 * turn them on again. */

/* A pass begins. From reading the clock on, this takes what it takes in bp_slot_begin. */
__attribute__((noinline)) static void bp_slot_open(bp_slot_t *slot, uintptr_t before) {
    slot->start = bp_trace_clock();
    bp_arch_unlock(before);
}

/* The range is entered for the first time, or a pass overlaps another one. */
BP_APART static void bp_slot_begin_unusual(uintptr_t id, bp_slot_t *slot, uintptr_t before) {
    if (slot->next == NULL) {
        bp_slot_register_locked(slot, id);
        slot->closed = NULL;
    } else {
        bool is_first = slot->closed == NULL; /* then the pass that is open is lost, too */
        slot->lost += is_first ? 2 : 1;
        slot->depth = (uint8_t)(is_first ? 2 : slot->depth + 1);
        slot->closed = BP_OVERLAPPING;
    }
    bp_slot_open(slot, before);
}

/* In the upper half of `flags`: how often bp_slot_unmatched has begun again. */
#define BP_UNMATCHED_ONE 0x10u
#define BP_UNMATCHED_MOST 0xf0u

/* An end without a begin: when recording began, a task was in the range already. Its end may have
 * been taken for that of another task's pass. It is not known for which one, so all begins again.
 * If this goes on, the firmware itself has more ends than begins. */
static void bp_slot_unmatched(bp_slot_t *slot) {
    uint8_t flags = slot->flags;
    if (slot->next == NULL || slot->count == 0 || flags >= BP_UNMATCHED_MOST) {
        return;
    }
    uint32_t lost = slot->lost + slot->count;
    bp_slot_clear(slot);
    slot->lost = lost;
    slot->flags =
        (uint8_t)((flags & ~(unsigned)BP_TRACE_SLOT_SQUARES_OVERFLOW) + BP_UNMATCHED_ONE) |
        BP_TRACE_SLOT_UNMATCHED;
}

/* A pass ends that overlaps another one, or one that began when nothing was recorded. */
BP_APART static void bp_slot_end_unusual(bp_trace_time_t now, bp_slot_t *slot, uintptr_t before) {
    (void)now;
    if (slot->closed != BP_OVERLAPPING) {
        bp_slot_unmatched(slot);
    } else if (--slot->depth == 0) {
        slot->closed = slot;
    }
    bp_arch_unlock(before);
}

static void bp_slot_add_high(bp_slot_t *slot, uint32_t more) {
    uint32_t high = slot->squares[1] + more;
    slot->squares[1] = high;
    if (high < more) {
        slot->flags |= BP_TRACE_SLOT_SQUARES_OVERFLOW;
    }
}

/* This pass took longest, or so long that its square has more than 32 bits. If the range was not
 * entered yet, because it was open when recording began, the pass is left out. */
BP_APART static void bp_slot_long(uint32_t took, bp_slot_t *slot, uintptr_t before) {
    if (slot->next == NULL) {
        slot->closed = NULL; /* so that the next begin registers it */
    } else {
        if (took > slot->most) {
            slot->most = took;
            slot->limit = took < UINT16_MAX ? took : UINT16_MAX;
        }
        bp_slot_add_high(slot, (uint32_t)((uint64_t)took * took >> 32));
    }
    bp_arch_unlock(before);
}

/* A pass takes so long that the clock wraps in it: it is left out. */
static void bp_slot_leave_out(bp_slot_t *slot) {
    slot->lost++;
    slot->flags |= BP_TRACE_SLOT_TOO_LONG;
}

/* A pass has ended after the clock has wrapped. That is known only with a clock of 64 bits. */
__attribute__((noinline)) static void bp_slot_too_long(bp_slot_t *slot, uintptr_t before) {
    if (slot->next == NULL) {
        slot->closed = NULL; /* as in bp_slot_long */
    } else {
        slot->closed = slot;
        bp_slot_leave_out(slot);
    }
    bp_arch_unlock(before);
}

/* One slot at a time, since there may be a thousand. */
void bp_slots_update(bool clears) {
    bp_slot_t *last;
    for (bp_slot_t *slot = bp_slots_now(&last); slot != NULL;
         slot = slot != last ? slot->next : NULL) {
        uintptr_t before = bp_arch_lock_always();
        if (clears) {
            bp_slot_clear(slot);
        } else if (slot->closed == NULL && (bp_trace_clock() - slot->start) >> 31 != 0) {
            slot->closed = BP_OVERLAPPING;
            slot->depth = 1;
            bp_slot_leave_out(slot);
        }
        bp_arch_unlock(before);
    }
}

BP_INLINE void bp_slot_begin(bp_slot_t *slot, uintptr_t id) {
    uintptr_t before = bp_arch_lock();
    if (!bp_slot_has_lock(slot, before, 1)) {
        return;
    }
    if (BP_RARE(slot->closed != slot)) {
        bp_slot_begin_unusual(id, slot, before);
        return;
    }
    slot->closed = NULL;
    slot->start = bp_trace_clock();
    bp_arch_unlock(before);
}

/* `now` is when the pass ended. Only the last step may be a call, so that this needs no stack. */
BP_INLINE void bp_slot_end(bp_slot_t *slot, bp_trace_time_t now) {
    uintptr_t before = bp_arch_lock();
    if (!bp_slot_has_lock(slot, before, 0)) {
        return;
    }
    if (BP_RARE(slot->closed != NULL)) {
        bp_slot_end_unusual(now, slot, before);
        return;
    }
    if (BP_RARE(bp_trace_wraps(now - slot->start) != 0)) {
        bp_slot_too_long(slot, before);
        return;
    }
    slot->closed = slot;
    uint32_t took = (uint32_t)(now - slot->start);
    slot->count++;
    if (took < slot->least) {
        slot->least = took;
    }
    uint32_t sum = slot->sum[0] + took;
    slot->sum[0] = sum;
    if (BP_RARE(sum < took)) {
        slot->sum[1]++;
    }
    uint32_t square = took * took; /* its lower half */
    uint32_t low = slot->squares[0] + square;
    slot->squares[0] = low;
    if (BP_RARE(low < square)) {
        bp_slot_add_high(slot, 1);
    }
    if (BP_RARE(took > slot->limit)) {
        bp_slot_long(took, slot, before);
        return;
    }
    bp_arch_unlock(before);
}

/// Ranges ///

/* Both: the mark is outside of what the slot counts. */
__attribute__((noinline)) static void bp_range_begin_traced(uintptr_t id, bp_slot_t *slot) {
    if (slot->next == NULL) {
        bp_slot_register(slot, id); /* now, since after the mark it would count */
    }
    bp_trace_mark(id);
    bp_slot_begin(slot, id);
}

__attribute__((noinline)) static void bp_range_end_traced(uintptr_t id, bp_slot_t *slot) {
    bp_trace_time_t now = bp_trace_clock();
    bp_trace_mark(id + 1); /* first, since how long the slot takes depends on the pass */
    bp_slot_end(slot, now);
}

void bp_range_begin(uintptr_t id, bp_slot_t *slot, uint32_t tracing) {
    if ((int32_t)tracing < 0) {
        bp_slot_begin(slot, id);
    } else if (tracing == BP_TRACE_EVENTS) {
        bp_trace_mark(id);
    } else {
        bp_range_begin_traced(id, slot);
    }
}

void bp_range_end(uintptr_t id, bp_slot_t *slot, uint32_t tracing) {
    if ((int32_t)tracing < 0) {
        bp_slot_end(slot, bp_trace_clock());
    } else if (tracing == BP_TRACE_EVENTS) {
        bp_trace_mark(id + 1);
    } else {
        bp_range_end_traced(id, slot);
    }
}

#endif
