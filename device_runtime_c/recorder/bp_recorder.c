/* SPDX-License-Identifier: Apache-2.0 */
/* See bp_recorder.h. A calling context tree in which recursion leads back to the node that is on
 * the path already (Ammons, Ball, Larus, "Exploiting Hardware Performance Counters with Flow and
 * Context Sensitive Profiling", 1997, section 4.1), so that a path is as long as there are
 * functions, at most. */

#define _GNU_SOURCE

#include "bp_recorder.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BP_ROOT = 0,       /* node of the recorded call */
    BP_INTERRUPTS = 1, /* node above those of handlers */
    BP_OTHER = 2,      /* node of all paths beyond the limit */
    BP_NO_NODE = UINT32_MAX,
    BP_NO_FUNCTION = -1,
    BP_PATHS = 20000,          /* nodes, unless the plan says otherwise */
    BP_SLOTS = 2000000,        /* pairs of a node and a block */
    BP_FRAMES = 1u << 22,      /* calls within each other */
    BP_VECTORS = 64,           /* entries of interrupts and traps */
    BP_NEAR = 4,               /* blocks from the agent's call to the function, such as a veneer */
    BP_TABLE_START = 1u << 10, /* places of a new hash table */
    BP_ANSWER_MS = 30000,      /* longest wait for the host */
    BP_LINE = 2048             /* bytes of a question, at most: a block has 512 instructions */
};

#define BP_UNKNOWN UINT64_MAX /* an address */

/* What code belongs to. */
typedef enum {
    BP_ROLE_INSIDE,  /* everything that a recorded call may execute */
    BP_ROLE_WINDOW,  /* calls the function that is recorded */
    BP_ROLE_THUNK,   /* lies between the two */
    BP_ROLE_OUTSIDE, /* the rest of the agent: whoever comes here has left the call */
} bp_role_t;

typedef struct {
    uint64_t low, high; /* half open */
    bp_role_t role;
} bp_range_t;

typedef struct bp_pass bp_pass_t;
typedef struct bp_exit bp_exit_t;

/* How often a block ran on a path. */
typedef struct {
    uint32_t node;
    bp_block_t *block;
    uint64_t entered; /* unless costs are asked for: then passes have it */
    uint64_t cost[BP_COLUMNS];
    bp_pass_t *pass;    /* the last one, if costs are asked for */
    bp_exit_t *next[2]; /* the last ones that are plain */
    bp_exit_t *left;    /* the last one that is not */
} bp_slot_t;

/* How often a block ran on a path after a certain instruction. */
struct bp_pass {
    bp_slot_t *slot;
    uint64_t from; /* BP_UNKNOWN: it is the first of a call or of a handler */
    uint64_t times;
    uint64_t cost[BP_COLUMNS];
};

/* How often a block on a path led to another one. */
struct bp_exit {
    bp_slot_t *slot;
    uint32_t at; /* index of its last instruction that ran */
    const bp_block_t *to;
    bool is_plain;   /* nothing came in between, and the other one is on the same path */
    bp_pass_t *pass; /* of the other one, if so */
    uint64_t times;
    uint64_t cost[BP_COLUMNS]; /* with those of that pass */
};

/* How often a block did not run to its end. */
typedef struct {
    const bp_slot_t *slot;
    bp_pass_t *pass;   /* NULL unless costs are asked for */
    uint32_t executed; /* instructions before it stopped */
    int64_t count;
    uint64_t cost[BP_COLUMNS]; /* of what did not run */
} bp_cut_t;

/* What a function and all that it called cost, recursion counted once. */
typedef struct {
    uint64_t entry;
    uint32_t active; /* calls of it that have not returned */
    uint64_t since[BP_COLUMNS + 1];
    uint64_t total[BP_COLUMNS + 1];
} bp_total_t;

typedef struct {
    uint32_t parent;
    uint64_t entry; /* of its function */
    bp_total_t *total;
    uint64_t calls;
} bp_node_t;

/* Calls from one place on one path to one function. */
typedef struct {
    uint32_t caller;
    uint64_t site;
    uint64_t entry;
    uint32_t node; /* of the function */
    uint64_t calls;
    uint64_t total[BP_COLUMNS + 1]; /* instructions first, then the columns */
} bp_edge_t;

typedef struct {
    uint32_t node;
    bp_edge_t *edge; /* NULL: the recorded call, or a handler */
    uint64_t return_to;
    uint64_t stack;                  /* its pointer at the call, in a recursion; 0 if unknown */
    uint64_t before[BP_COLUMNS + 1]; /* totals when it was called */
    bool is_counted;                 /* in the total of its function: it is in no handler */
    bool tail;                       /* its caller is done, too, when it returns */
    bool is_handler;                 /* the rest is of handlers */
    bool is_open;      /* whether the instruction ran is known when the handler returns */
    bp_block_t *block; /* that was executed before */
    bp_slot_t *slot;
    bp_pass_t *pass;
    uint32_t at;                    /* index of the last instruction in it */
    uint64_t stack_low, stack_high; /* what was interrupted has its stack pointer between them */
} bp_frame_t;

struct bp_block {
    uint32_t id;
    uint32_t count;
    uint32_t stops; /* instructions that can stop, and the last one */
    int32_t function;
    bp_role_t role;
    bool is_entry;
    bool goes_on;     /* its last instruction is no more than a branch */
    bp_slot_t *slot;  /* of the last node */
    uint64_t slot_of; /* generation and node */
    bp_edge_t *edge;  /* that was taken last from here */
    uint64_t edge_of;
    bp_insn_t insn[];
};

/* Pointers by key; the items are allocated one by one and never move. */
typedef struct {
    void **place;
    size_t size, used; /* size: a power of two */
} bp_table_t;

struct bp_recorder {
    char isa[16];
    char *record;
    bp_range_t *entries; /* of the functions that are recorded; `low` is of use */
    size_t entry_count;
    bp_range_t *functions; /* sorted by `low` */
    size_t function_count;
    bp_range_t *ranges;
    size_t range_count;
    uint64_t vectors[BP_VECTORS];
    size_t vector_count, planned_vectors;
    size_t columns;
    char *names[BP_COLUMNS];
    uint32_t path_limit;
    char *pipes; /* where costs are asked for; NULL: the emulator charges them, or there are none */
    FILE *questions, *answers;
    bool is_unanswered;

    bp_table_t blocks;
    uint32_t block_count;

    bool armed;   /* a window has begun */
    uint8_t near; /* blocks in which it may call the function: later ones are another task's */
    bool recording;
    uint64_t generation;
    bp_block_t *block; /* the last one */
    bp_table_t slots, edges, passes, exits, cuts, totals;
    bp_table_t children; /* nodes but the roots, by their parent and function */
    bp_slot_t *slot;     /* of the last block */
    bp_pass_t *pass;     /* and how it was entered, if costs are asked for */
    uint64_t from;       /* the instruction that leads to the next block */
    bp_node_t *nodes;
    uint32_t node_count;
    size_t handlers; /* that have not returned */
    bp_frame_t *frames;
    size_t depth, room;
    uint64_t here; /* generation and current node */
    uint64_t total[BP_COLUMNS + 1];
    uint64_t aside[BP_COLUMNS + 1]; /* of it, in handlers that have returned */
    bool too_deep;
    bp_core_t core;
    bool has_tasks;       /* some code sets the stack pointer of tasks */
    uint64_t stack_begin; /* the stack pointer when the call began */
    uint64_t stack_last;  /* and at the last block, if the image has tasks */
    bool is_unsure;       /* another task may have been taken for the call */
};

/// Memory ///

static void *must(void *memory) {
    if (memory == NULL) {
        fputs("boardprof recorder: out of memory\n", stderr);
        abort();
    }
    return memory;
}

static uint64_t mixed(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t h = a * 0x9e3779b97f4a7c15u ^ (b + 0x7f4a7c15u) * 0xbf58476d1ce4e5b9u ^
                 (c + 0x1ce4e5b9u) * 0x94d049bb133111ebu;
    return h ^ h >> 29 ^ h >> 47;
}

/* The place of an item, where it is or would be; `same` compares it with a key. */
static void **place_of(bp_table_t *t, uint64_t hash, bool (*same)(const void *, const void *),
                       const void *key) {
    size_t i = (size_t)hash & (t->size - 1);
    while (t->place[i] != NULL && !same(t->place[i], key)) {
        i = (i + 1) & (t->size - 1);
    }
    return &t->place[i];
}

static void empty_table(bp_table_t *t, bool free_items) {
    for (size_t i = 0; free_items && i < t->size; i++) {
        free(t->place[i]);
    }
    free(t->place);
    t->size = BP_TABLE_START;
    t->used = 0;
    t->place = must(calloc(t->size, sizeof(*t->place)));
}

/* Of a call. */
static void empty_tables(bp_recorder_t *r) {
    empty_table(&r->slots, true);
    empty_table(&r->edges, true);
    empty_table(&r->passes, true);
    empty_table(&r->exits, true);
    empty_table(&r->cuts, true);
    empty_table(&r->totals, true);
    empty_table(&r->children, false);
}

/* Make room for one more. */
static void grow_table(bp_table_t *t, uint64_t (*hash)(const void *)) {
    if (++t->used * 2 <= t->size) {
        return;
    }
    void **old = t->place;
    size_t old_size = t->size;
    t->size *= 2;
    t->place = must(calloc(t->size, sizeof(*t->place)));
    for (size_t k = 0; k < old_size; k++) {
        if (old[k] != NULL) {
            size_t i = (size_t)hash(old[k]) & (t->size - 1);
            while (t->place[i] != NULL) {
                i = (i + 1) & (t->size - 1);
            }
            t->place[i] = old[k];
        }
    }
    free(old);
}

/// Blocks ///

static uint64_t block_hash(const void *item) {
    const bp_block_t *b = item;
    return mixed(b->insn[0].address, b->count, b->insn[b->count - 1].address);
}

static bool same_block(const void *item, const void *key) {
    const bp_block_t *a = item, *b = key;
    if (a->count != b->count) {
        return false;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const bp_insn_t *x = &a->insn[i], *y = &b->insn[i];
        if (x->address != y->address || x->target != y->target || x->length != y->length ||
            x->flow != y->flow || x->can_stop != y->can_stop) {
            return false;
        }
    }
    return true;
}

static int32_t function_at(const bp_recorder_t *r, uint64_t address) {
    size_t low = 0, high = r->function_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (address < r->functions[middle].low) {
            high = middle;
        } else if (address >= r->functions[middle].high) {
            low = middle + 1;
        } else {
            return (int32_t)middle;
        }
    }
    return BP_NO_FUNCTION;
}

bool bp_recorder_is_one(const bp_recorder_t *r, uint64_t a, uint64_t b) {
    return function_at(r, a) == function_at(r, b);
}

static bp_role_t role_of(const bp_recorder_t *r, uint64_t address) {
    for (size_t i = 0; i < r->range_count; i++) {
        if (address >= r->ranges[i].low && address < r->ranges[i].high) {
            return r->ranges[i].role;
        }
    }
    return BP_ROLE_INSIDE;
}

bp_block_t *bp_recorder_block(bp_recorder_t *r, const bp_insn_t *insn, size_t count) {
    bp_block_t *b = must(calloc(1, sizeof(*b) + count * sizeof(*insn)));
    b->count = (uint32_t)count;
    memcpy(b->insn, insn, count * sizeof(*insn));
    void **place = place_of(&r->blocks, block_hash(b), same_block, b);
    if (*place != NULL) {
        free(b);
        return *place;
    }
    b->id = r->block_count++;
    b->function = function_at(r, insn[0].address);
    b->role = role_of(r, insn[0].address);
    for (size_t i = 0; i < r->entry_count; i++) {
        b->is_entry = b->is_entry || insn[0].address == r->entries[i].low;
    }
    b->goes_on = insn[count - 1].flow <= BP_FLOW_BRANCH;
    b->slot_of = b->edge_of = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        b->stops += insn[i].can_stop || i + 1 == count;
        r->has_tasks = r->has_tasks || (insn[i].switches && b->role != BP_ROLE_OUTSIDE);
    }
    *place = b;
    grow_table(&r->blocks, block_hash);
    return b;
}

static uint64_t after(const bp_insn_t *insn) {
    return insn->address + insn->length;
}

/* Where the function of a block begins; the block itself, if no function is known there. */
static uint64_t entry_of(const bp_recorder_t *r, const bp_block_t *b) {
    return b->function == BP_NO_FUNCTION ? b->insn[0].address : r->functions[b->function].low;
}

/// Blocks on a path ///

static uint64_t slot_hash(const void *item) {
    const bp_slot_t *s = item;
    return mixed(s->node, (uintptr_t)s->block, 0);
}

static bool same_slot(const void *item, const void *key) {
    const bp_slot_t *a = item, *b = key;
    return a->node == b->node && a->block == b->block;
}

/* The node for what is beyond a limit: of the call, or of handlers. */
static uint32_t rest_of(const bp_recorder_t *r, uint32_t node) {
    while (r->nodes[node].parent != BP_NO_NODE) {
        node = r->nodes[node].parent;
    }
    return node == BP_INTERRUPTS ? BP_INTERRUPTS : BP_OTHER;
}

static bp_slot_t *slot_of(bp_recorder_t *r, uint32_t node, bp_block_t *block) {
    bp_slot_t key = {.node = node, .block = block};
    void **place = place_of(&r->slots, slot_hash(&key), same_slot, &key);
    if (*place == NULL) {
        uint32_t rest = rest_of(r, node);
        if (r->slots.used >= BP_SLOTS && node != rest) {
            return slot_of(r, rest, block);
        }
        bp_slot_t *slot = must(calloc(1, sizeof(*slot)));
        *slot = key;
        *place = slot;
        grow_table(&r->slots, slot_hash);
        return slot;
    }
    return *place;
}

static uint32_t current(const bp_recorder_t *r) {
    return r->frames[r->depth - 1].node;
}

/* The current node has changed. */
static void arrived(bp_recorder_t *r) {
    r->here = r->generation << 32 | current(r);
}

/// Costs that the host knows ///

/* Ask for a cost. */
__attribute__((format(printf, 3, 4))) static void ask(bp_recorder_t *r, uint64_t *cost,
                                                      const char *form, ...) {
    char line[BP_LINE];
    va_list values;
    va_start(values, form);
    (void)vfprintf(r->questions, form, values);
    va_end(values);
    struct pollfd answer = {.fd = fileno(r->answers), .events = POLLIN};
    bool ok = !r->is_unanswered && fflush(r->questions) == 0 &&
              poll(&answer, 1, BP_ANSWER_MS) == 1 && fgets(line, sizeof line, r->answers) != NULL;
    char *next = line;
    for (size_t i = 0; i < r->columns; i++) {
        cost[i] = ok ? strtoull(next, &next, 10) : 0;
    }
    if (!ok && !r->is_unanswered) {
        fputs("boardprof recorder: the host does not tell costs\n", stderr);
        r->is_unanswered = true;
    }
}

static const char *address_text(char text[20], uint64_t address) {
    (void)snprintf(text, 20, address == BP_UNKNOWN ? "-" : "%" PRIx64, address);
    return text;
}

/* `FROM ADDRESS LENGTHS` of the first instructions of a pass. */
static const char *pass_text(char text[BP_LINE], const bp_pass_t *pass, uint32_t count) {
    const bp_insn_t *insn = pass->slot->block->insn;
    char from[20];
    int length = snprintf(text, BP_LINE - count - 1u, "%s %" PRIx64 " ",
                          address_text(from, pass->from), insn[0].address);
    for (uint32_t k = 0; k < count; k++) {
        text[length++] = "0123456789abcdef"[insn[k].length / 2u];
    }
    text[length] = '\0';
    return text;
}

static uint64_t pass_hash(const void *item) {
    const bp_pass_t *p = item;
    return mixed((uintptr_t)p->slot, p->from, 1);
}

static bool same_pass(const void *item, const void *key) {
    const bp_pass_t *a = item, *b = key;
    return a->slot == b->slot && a->from == b->from;
}

static bp_pass_t *pass_of(bp_recorder_t *r, bp_slot_t *slot, uint64_t from) {
    if (slot->pass != NULL && slot->pass->from == from) {
        return slot->pass;
    }
    bp_pass_t key = {.slot = slot, .from = from};
    void **place = place_of(&r->passes, pass_hash(&key), same_pass, &key);
    bp_pass_t *pass = *place;
    if (pass == NULL) {
        char text[BP_LINE];
        pass = must(calloc(1, sizeof(*pass)));
        *pass = key;
        ask(r, pass->cost, "pass %s\n", pass_text(text, pass, slot->block->count));
        *place = pass;
        grow_table(&r->passes, pass_hash);
    }
    slot->pass = pass;
    return pass;
}

static uint64_t exit_hash(const void *item) {
    const bp_exit_t *e = item;
    return mixed((uintptr_t)e->slot, (uintptr_t)e->to, e->at);
}

static bool same_exit(const void *item, const void *key) {
    const bp_exit_t *a = item, *b = key;
    return a->slot == b->slot && a->to == b->to && a->at == b->at && a->is_plain == b->is_plain;
}

/* What leads from instruction `at` of a block to another one. */
static bp_exit_t *exit_of(bp_recorder_t *r, bp_slot_t *slot, uint32_t at, bp_block_t *to,
                          bool is_plain) {
    bp_exit_t key = {.slot = slot, .at = at, .to = to, .is_plain = is_plain};
    void **place = place_of(&r->exits, exit_hash(&key), same_exit, &key);
    if (*place != NULL) {
        return *place;
    }
    char text[20];
    bp_exit_t *exit = must(calloc(1, sizeof(*exit)));
    *exit = key;
    *place = exit;
    grow_table(&r->exits, exit_hash);
    uint64_t last = slot->block->insn[at].address;
    /* Where the function's caller goes on is not the function's affair. */
    uint64_t goes_to = to->role == BP_ROLE_INSIDE ? to->insn[0].address : BP_UNKNOWN;
    ask(r, exit->cost, "left %" PRIx64 " %s\n", last, address_text(text, goes_to));
    if (is_plain) {
        exit->pass = pass_of(r, slot_of(r, slot->node, to), last);
        for (size_t i = 0; i < r->columns; i++) {
            exit->cost[i] += exit->pass->cost[i];
        }
    }
    return exit;
}

static void charge(bp_recorder_t *r, const uint64_t *cost, uint64_t times) {
    size_t columns = r->columns;
    for (size_t i = 0; i < columns; i++) {
        r->total[i + 1] += cost[i] * times;
    }
}

/* An instruction of the last block, or of one that was interrupted, leads to a block of another
 * path. */
static void leave_path(bp_recorder_t *r, bp_slot_t *slot, uint32_t at, bp_block_t *to) {
    if (r->pipes != NULL) {
        bp_exit_t *exit = slot->left;
        if (exit == NULL || exit->to != to || exit->at != at) {
            exit = slot->left = exit_of(r, slot, at, to, false);
        }
        exit->times++;
        charge(r, exit->cost, 1);
    }
    r->from = slot->block->insn[at].address;
}

/// Counts ///

static void count(bp_recorder_t *r, bp_block_t *block) {
    if (block->slot_of != r->here) {
        block->slot = slot_of(r, current(r), block);
        block->slot_of = r->here;
    }
    r->slot = block->slot;
    r->total[0] += block->count;
    if (r->pipes == NULL) {
        block->slot->entered++;
    } else {
        r->pass = pass_of(r, r->slot, r->from);
        r->pass->times++;
        charge(r, r->pass->cost, 1);
    }
}

/* The same, if the last block ran to its end and went on in its function. */
static void count_next(bp_recorder_t *r, bp_block_t *block) {
    bp_slot_t *slot = r->slot;
    bp_exit_t *exit = slot->next[0];
    if (exit == NULL || exit->to != block) {
        exit = slot->next[1];
        if (exit == NULL || exit->to != block) {
            exit = exit_of(r, slot, slot->block->count - 1, block, true);
            slot->next[1] = slot->next[0];
            slot->next[0] = exit;
        }
    }
    exit->times++;
    r->pass = exit->pass;
    r->slot = exit->pass->slot;
    r->total[0] += block->count;
    charge(r, exit->cost, 1);
}

static uint64_t cut_hash(const void *item) {
    const bp_cut_t *c = item;
    return mixed((uintptr_t)c->slot, (uintptr_t)c->pass, c->executed);
}

static bool same_cut(const void *item, const void *key) {
    const bp_cut_t *a = item, *b = key;
    return a->slot == b->slot && a->pass == b->pass && a->executed == b->executed;
}

/* A block was left after `executed` instructions, or, with `by` -1, it was not after all. */
static void cut(bp_recorder_t *r, const bp_slot_t *slot, bp_pass_t *pass, uint32_t executed,
                int by) {
    r->total[0] -= (uint64_t)((int64_t)(slot->block->count - executed) * by);
    bp_cut_t key = {.slot = slot, .pass = pass, .executed = executed};
    void **place = place_of(&r->cuts, cut_hash(&key), same_cut, &key);
    bp_cut_t *c = *place;
    if (c == NULL) {
        *place = c = must(malloc(sizeof(*c)));
        *c = key;
        grow_table(&r->cuts, cut_hash);
        if (pass != NULL) {
            char text[BP_LINE];
            if (executed != 0) {
                ask(r, c->cost, "pass %s\n", pass_text(text, pass, executed));
            }
            for (size_t k = 0; k < r->columns; k++) {
                c->cost[k] = pass->cost[k] - c->cost[k];
            }
        }
    }
    c->count += by;
    if (pass != NULL) {
        charge(r, c->cost, (uint64_t)-(int64_t)by);
    }
}

void bp_recorder_charge(bp_recorder_t *r, size_t column, uint64_t amount) {
    if (r->recording) {
        r->slot->cost[column] += amount;
        r->total[column + 1] += amount;
    }
}

/// Paths ///

static uint64_t edge_hash(const void *item) {
    const bp_edge_t *e = item;
    return mixed(e->caller, e->site, e->entry);
}

static bool same_edge(const void *item, const void *key) {
    const bp_edge_t *a = item, *b = key;
    return a->caller == b->caller && a->site == b->site && a->entry == b->entry;
}

static uint64_t total_hash(const void *item) {
    return mixed(((const bp_total_t *)item)->entry, 0, 0);
}

static bool same_total(const void *item, const void *key) {
    return ((const bp_total_t *)item)->entry == ((const bp_total_t *)key)->entry;
}

static bp_total_t *total_of(bp_recorder_t *r, uint64_t entry) {
    bp_total_t key = {.entry = entry};
    void **place = place_of(&r->totals, total_hash(&key), same_total, &key);
    bp_total_t *total = *place;
    if (total == NULL) {
        *place = total = must(malloc(sizeof(*total)));
        *total = key;
        grow_table(&r->totals, total_hash);
    }
    return total;
}

static uint64_t node_hash(const void *item) {
    const bp_node_t *n = item;
    return mixed(n->parent, n->entry, 0);
}

static bool same_node(const void *item, const void *key) {
    const bp_node_t *a = item, *b = key;
    return a->parent == b->parent && a->entry == b->entry;
}

static bp_node_t *add_node(bp_recorder_t *r, uint32_t parent, uint64_t entry) {
    bp_node_t *node = &r->nodes[r->node_count++];
    *node = (bp_node_t){.parent = parent, .entry = entry, .total = total_of(r, entry)};
    return node;
}

/* The node of a function below a node: one on the path to it, a child, or a new child. */
static uint32_t node_of(bp_recorder_t *r, uint32_t parent, uint64_t entry) {
    for (uint32_t n = parent; n != BP_NO_NODE; n = r->nodes[n].parent) {
        if (n != BP_INTERRUPTS && n != BP_OTHER && r->nodes[n].entry == entry) {
            return n;
        }
    }
    bp_node_t key = {.parent = parent, .entry = entry};
    void **place = place_of(&r->children, node_hash(&key), same_node, &key);
    bp_node_t *node = *place;
    if (node == NULL) {
        if (parent == BP_OTHER || r->node_count >= r->path_limit) {
            return rest_of(r, parent);
        }
        *place = node = add_node(r, parent, entry);
        grow_table(&r->children, node_hash);
    }
    return (uint32_t)(node - r->nodes);
}

static bp_edge_t *find_edge(bp_recorder_t *r, uint32_t caller, uint64_t site, uint64_t entry) {
    bp_edge_t key = {.caller = caller, .site = site, .entry = entry};
    void **place = place_of(&r->edges, edge_hash(&key), same_edge, &key);
    if (*place == NULL) {
        bp_edge_t *edge = must(calloc(1, sizeof(*edge)));
        *edge = key;
        edge->node = node_of(r, caller, entry);
        *place = edge;
        grow_table(&r->edges, edge_hash);
        return edge;
    }
    return *place;
}

/* The edge from an instruction of a block, on the current path, to a function. */
static bp_edge_t *edge_of(bp_recorder_t *r, bp_block_t *block, uint64_t site, uint64_t entry) {
    if (block->edge_of != r->here || block->edge->site != site || block->edge->entry != entry) {
        block->edge = find_edge(r, current(r), site, entry);
        block->edge_of = r->here;
    }
    return block->edge;
}

static bool is_of(const bp_recorder_t *r, const bp_frame_t *f, uint64_t entry) {
    return f->node != BP_OTHER && r->nodes[f->node].entry == entry;
}

static bp_frame_t *push(bp_recorder_t *r, uint32_t node, bp_edge_t *edge) {
    if (r->depth == BP_FRAMES) { /* far beyond what a board's stack holds */
        r->too_deep = true;
        r->depth--;
    }
    if (r->depth == r->room) {
        r->room = r->room * 2 + 64;
        r->frames = must(realloc(r->frames, r->room * sizeof(*r->frames)));
    }
    bp_frame_t *f = &r->frames[r->depth++]; /* `before` is not cleared first: it is long */
    f->node = node;
    f->edge = edge;
    f->return_to = 0;
    f->tail = f->is_handler = f->is_open = false;
    r->nodes[node].calls++;
    if (edge != NULL) {
        edge->calls++;
    }
    for (size_t i = 0; i <= r->columns; i++) {
        f->before[i] = r->total[i] - r->aside[i];
    }
    bp_total_t *t = r->nodes[node].total;
    f->is_counted = r->handlers == 0;
    f->stack = 0;
    if (f->is_counted && t->active++ == 0) {
        memcpy(t->since, f->before, (r->columns + 1) * sizeof t->since[0]);
    } else if (r->core.stack != NULL) {
        f->stack = r->core.stack();
    }
    arrived(r);
    return f;
}

/* Take what a frame has cost. */
static void settle(bp_recorder_t *r, const bp_frame_t *f) {
    bp_total_t *t = r->nodes[f->node].total;
    bool is_last = f->is_counted && --t->active == 0;
    r->handlers -= f->is_handler;
    for (size_t i = 0; i <= r->columns; i++) {
        uint64_t now = r->total[i] - r->aside[i];
        t->total[i] += is_last ? now - t->since[i] : 0;
        if (f->is_handler) {
            r->aside[i] += now - f->before[i];
        } else if (f->edge != NULL) {
            f->edge->total[i] += now - f->before[i];
        }
    }
}

static void pop_to(bp_recorder_t *r, size_t depth) {
    while (r->depth > depth) {
        settle(r, &r->frames[--r->depth]);
    }
    if (depth != 0) {
        arrived(r);
    }
}

/// Control ///

static void call(bp_recorder_t *r, const bp_insn_t *insn, bp_block_t *last,
                 const bp_block_t *block) {
    bp_edge_t *edge = edge_of(r, last, insn->address, entry_of(r, block));
    push(r, edge->node, edge)->return_to = after(insn);
}

/* Remove a frame below others. */
static void drop(bp_recorder_t *r, size_t d) {
    settle(r, &r->frames[d]);
    r->depth--;
    memmove(&r->frames[d], &r->frames[d + 1], (r->depth - d) * sizeof(*r->frames));
}

/* A jump out of the function: a tail call, or back into a function that has jumped to here. */
static void jump(bp_recorder_t *r, const bp_insn_t *insn, bp_block_t *last,
                 const bp_block_t *block) {
    uint64_t entry = entry_of(r, block);
    bool is_begin = block->insn[0].address == entry;
    size_t d = r->depth - 1;
    while (r->frames[d].tail && !is_of(r, &r->frames[d], entry)) {
        d--;
    }
    bool is_known = is_of(r, &r->frames[d], entry);
    if (is_known && !is_begin) {
        pop_to(r, d + 1);
        return;
    }
    uint64_t return_to = r->frames[r->depth - 1].return_to;
    bp_edge_t *edge = edge_of(r, last, insn->address, entry);
    bp_frame_t *f = push(r, edge->node, edge);
    f->return_to = return_to;
    f->tail = true;
    if (is_known && r->frames[d].tail) { /* calls in turns have a frame for each function */
        drop(r, d);
    }
}

/* Go back to the call at index `d`, and to its caller if it is done. */
static void return_from(bp_recorder_t *r, size_t d) {
    while (r->frames[d].tail) {
        d--;
    }
    pop_to(r, d);
}

/* Whether a frame is still there: the stack pointer was higher at its call, or, where a call
 * pushes, before it. */
static bool is_still_there(const bp_recorder_t *r, const bp_frame_t *f) {
    uint64_t pushed = r->core.pushed == BP_PUSHED_ELSEWHERE ? 0 : (uint64_t)r->core.pushed;
    return f->stack == 0 || f->stack + pushed > r->core.stack();
}

/* A return, longjmp, a tail call by a pointer, or a jump table. */
static void go_indirect(bp_recorder_t *r, const bp_insn_t *insn, bp_block_t *last,
                        const bp_block_t *block) {
    uint64_t to = block->insn[0].address;
    size_t top = r->depth - 1;
    if (top > 0 && r->frames[top].return_to == to && !r->frames[top].is_handler) {
        return_from(r, top);
        return;
    }
    if (block->function == last->function) {
        return; /* a jump table */
    }
    /* Not beyond a handler: another task, which it has started, may be in the same functions. */
    for (size_t d = top; d > 0 && !r->frames[d].is_handler; d--) {
        if (r->frames[d].return_to == to) {
            return_from(r, d);
            return;
        }
    }
    uint64_t entry = entry_of(r, block);
    for (size_t d = top; to != entry; d--) {
        if (is_of(r, &r->frames[d], entry) && is_still_there(r, &r->frames[d])) {
            pop_to(r, d + 1); /* longjmp */
            return;
        }
        if (d == 0 || r->frames[d].is_handler) {
            break;
        }
    }
    jump(r, insn, last, block);
}

static bool is_vector(const bp_recorder_t *r, uint64_t address) {
    for (size_t i = 0; i < r->vector_count; i++) {
        if (r->vectors[i] == address) {
            return true;
        }
    }
    return false;
}

/* Whether an instruction whose target is only known when it runs has led to a block. */
static bool jumps(const bp_recorder_t *r, const bp_insn_t *insn, const bp_block_t *block) {
    uint64_t to = block->insn[0].address;
    bool may_be_handler = r->handlers == 0 && to == entry_of(r, block);
    return !is_vector(r, to) &&
           !(may_be_handler && r->core.jumped != NULL && !r->core.jumped(insn, to));
}

/* Whether an instruction alone can have led to a block. */
static bool explains(const bp_recorder_t *r, const bp_insn_t *insn, const bp_block_t *block) {
    uint64_t to = block->insn[0].address;
    switch ((bp_flow_t)insn->flow) {
    case BP_FLOW_NEXT:
        return to == after(insn);
    case BP_FLOW_BRANCH:
        return to == after(insn) || to == insn->target;
    case BP_FLOW_CALL: /* in an IT block of Thumb, perhaps to the next one */
        return insn->target != 0 ? to == insn->target || to == after(insn) : jumps(r, insn, block);
    default:
        return jumps(r, insn, block);
    }
}

/* Whether the stack pointer shows which task runs. */
static bool tells_tasks(const bp_recorder_t *r) {
    return r->core.stack != NULL && (r->has_tasks || r->core.pushed != BP_PUSHED_ELSEWHERE);
}

/* Note where the stack pointer of what is interrupted can be: after instruction `at`. */
static void note_stack(const bp_recorder_t *r, bp_frame_t *f, const bp_block_t *last, uint32_t at) {
    f->stack_low = 0;
    f->stack_high = UINT64_MAX;
    if (!tells_tasks(r)) {
        return;
    }
    if (r->core.pushed != BP_PUSHED_ELSEWHERE) {
        f->stack_low = f->stack_high = r->core.stack() + (uint64_t)r->core.pushed;
        return;
    }
    uint64_t sp = r->stack_last;
    f->stack_low = f->stack_high = sp;
    for (uint32_t i = 0; i <= at; i++) {
        bool is_any = last->insn[i].pops == BP_POPS_ANY; /* the end of a frame, mostly */
        sp = is_any ? r->stack_begin : sp + (uint64_t)last->insn[i].pops;
        f->stack_low = sp < f->stack_low ? sp : f->stack_low;
        f->stack_high = sp > f->stack_high ? sp : f->stack_high;
    }
}

/* An interrupt or a trap came behind the instruction `at` of the last block, or at it. */
static void suspend(bp_recorder_t *r, bp_block_t *last, uint32_t at, const bp_block_t *block) {
    const bp_insn_t *insn = &last->insn[at];
    uint64_t to = block->insn[0].address;
    /* Only what can stop can have been stopped: whether it was shows where the handler returns. */
    bool is_open = insn->can_stop;
    bp_slot_t *slot = r->slot;
    if (is_open) {
        cut(r, slot, r->pass, at, 1);
    } else if (at + 1 != last->count) {
        cut(r, slot, r->pass, at + 1, 1);
    }
    if (r->vector_count < BP_VECTORS && !is_vector(r, to)) {
        r->vectors[r->vector_count++] = to;
    }
    r->handlers++;
    bp_frame_t *f = push(r, node_of(r, BP_INTERRUPTS, entry_of(r, block)), NULL);
    f->is_handler = true;
    f->is_open = is_open;
    f->block = last;
    f->slot = slot;
    f->pass = r->pass;
    f->at = at;
    r->from = BP_UNKNOWN;
    note_stack(r, f, last, at);
}

static void transfer(bp_recorder_t *r, const bp_insn_t *insn, bp_block_t *last, bp_block_t *block);

/* Whether a block begins where a handler came in. */
static bool is_place(const bp_recorder_t *r, const bp_frame_t *f, const bp_block_t *block) {
    const bp_insn_t *before = &f->block->insn[f->at];
    return (f->is_open && block->insn[0].address == before->address) || explains(r, before, block);
}

/* Whether an instruction of a handler returns to where the handler came in. */
static bool returns(const bp_recorder_t *r, const bp_frame_t *f, const bp_insn_t *insn,
                    const bp_block_t *block) {
    const bp_insn_t *before = &f->block->insn[f->at];
    bool is_sure = before->flow <= BP_FLOW_BRANCH || before->target != 0;
    return insn->flow == BP_FLOW_RESUME ||
           (is_place(r, f, block) && (is_sure || insn->flow == BP_FLOW_RETURN));
}

/* Index of the handler that returns to a block; 0 if none does: it goes on, or has started another
 * task. */
static size_t handler_of(bp_recorder_t *r, const bp_insn_t *insn, const bp_block_t *block) {
    size_t top = r->depth - 1;
    while (r->frames[top].tail) {
        top--;
    }
    if (!r->frames[top].is_handler) {
        return 0;
    }
    if (!tells_tasks(r)) {
        bool is_top = returns(r, &r->frames[top], insn, block);
        bool is_clear = !r->has_tasks && is_place(r, &r->frames[top], block);
        r->is_unsure = r->is_unsure || (is_top && !is_clear);
        return is_top ? top : 0;
    }
    uint64_t sp = r->core.stack();
    for (size_t d = 1; d <= top; d++) { /* other tasks may have been interrupted since */
        const bp_frame_t *f = &r->frames[d];
        bool is_there = f->is_handler && sp >= f->stack_low && sp <= f->stack_high;
        if (is_there && returns(r, f, insn, block)) {
            return d;
        }
    }
    return 0;
}

/* If a handler returns to a block: go on where it came in. Returns false if it does not return. */
static bool resumed(bp_recorder_t *r, const bp_insn_t *insn, bp_block_t *block) {
    size_t d = handler_of(r, insn, block);
    if (d == 0) {
        return false;
    }
    bp_frame_t f = r->frames[d];
    const bp_insn_t *before = &f.block->insn[f.at];
    bool again = f.is_open && block->insn[0].address == before->address;
    pop_to(r, d);
    if (again) { /* a trap, whose instruction now runs once more */
        r->from = f.at != 0 ? f.block->insn[f.at - 1].address : f.pass ? f.pass->from : BP_UNKNOWN;
        return true;
    }
    if (f.is_open) { /* it was executed, and the interrupt came then */
        cut(r, f.slot, f.pass, f.at, -1);
        if (f.at + 1 != f.block->count) {
            cut(r, f.slot, f.pass, f.at + 1, 1);
        }
    }
    leave_path(r, f.slot, f.at, block);
    if (is_place(r, &f, block)) {
        transfer(r, before, f.block, block);
    } else { /* the handler has chosen another way */
        go_indirect(r, before, f.block, block);
    }
    return true;
}

static void transfer(bp_recorder_t *r, const bp_insn_t *insn, bp_block_t *last, bp_block_t *block) {
    switch ((bp_flow_t)insn->flow) {
    case BP_FLOW_CALL:
        if (block->insn[0].address != after(insn)) { /* else it only asks where it is */
            call(r, insn, last, block);
        }
        break;
    case BP_FLOW_NEXT:
    case BP_FLOW_BRANCH:
        if (block->function != last->function) {
            jump(r, insn, last, block);
        }
        break;
    default:
        if (!resumed(r, insn, block)) {
            go_indirect(r, insn, last, block);
        }
    }
}

/// The record ///

static void write_costs(const bp_recorder_t *r, FILE *file, const uint64_t *cost) {
    for (size_t i = 0; i < r->columns; i++) {
        fprintf(file, " %" PRIu64, cost[i]);
    }
    fputc('\n', file);
}

static void write_nodes(const bp_recorder_t *r, FILE *file) {
    for (uint32_t i = 0; i < r->node_count; i++) {
        const bp_node_t *n = &r->nodes[i];
        int64_t parent = n->parent == BP_NO_NODE ? -1 : (int64_t)n->parent;
        fprintf(file, "path %" PRIu32 " %" PRId64 " %" PRIx64 " %" PRIu64 "\n", i, parent, n->entry,
                n->calls);
    }
    for (size_t i = 0; i < r->totals.size; i++) {
        const bp_total_t *t = r->totals.place[i];
        if (t != NULL) {
            fprintf(file, "function %" PRIx64 " %" PRIu64, t->entry, t->total[0]);
            write_costs(r, file, t->total + 1);
        }
    }
    for (size_t i = 0; i < r->edges.size; i++) {
        const bp_edge_t *e = r->edges.place[i];
        if (e != NULL && e->calls != 0) {
            fprintf(file, "call %" PRIu32 " %" PRIx64 " %" PRIu32 " %" PRIu64 " %" PRIu64,
                    e->caller, e->site, e->node, e->calls, e->total[0]);
            write_costs(r, file, e->total + 1);
        }
    }
}

/* With how each block was entered and left. */
static void write_passes(const bp_recorder_t *r, FILE *file) {
    char text[BP_LINE];
    for (size_t i = 0; i < r->exits.size; i++) {
        const bp_exit_t *e = r->exits.place[i];
        if (e == NULL) {
            continue;
        }
        if (e->pass != NULL) {
            e->pass->times += e->times;
        }
        uint64_t to = e->to->role == BP_ROLE_INSIDE ? e->to->insn[0].address : BP_UNKNOWN;
        fprintf(file, "left %" PRIu32 " %" PRIu64 " %" PRIx64 " %s\n", e->slot->node, e->times,
                e->slot->block->insn[e->at].address, address_text(text, to));
    }
    for (size_t i = 0; i < r->cuts.size; i++) {
        const bp_cut_t *c = r->cuts.place[i];
        if (c == NULL) {
            continue;
        }
        c->pass->times -= (uint64_t)c->count;
        if (c->count != 0 && c->executed != 0) {
            fprintf(file, "pass %" PRIu32 " %" PRId64 " %s\n", c->slot->node, c->count,
                    pass_text(text, c->pass, c->executed));
        }
    }
    for (size_t i = 0; i < r->passes.size; i++) {
        const bp_pass_t *p = r->passes.place[i];
        if (p != NULL && p->times != 0) {
            fprintf(file, "pass %" PRIu32 " %" PRIu64 " %s\n", p->slot->node, p->times,
                    pass_text(text, p, p->slot->block->count));
        }
    }
}

static void write_counts(const bp_recorder_t *r, FILE *file) {
    for (size_t i = 0; i < r->slots.size; i++) {
        const bp_slot_t *s = r->slots.place[i];
        if (s == NULL || s->entered == 0) {
            continue;
        }
        fprintf(file, "ran %" PRIu32 " %" PRIu64 " %" PRIx64 " ", s->node, s->entered,
                s->block->insn[0].address);
        for (uint32_t k = 0; k < s->block->count; k++) {
            fprintf(file, "%x", s->block->insn[k].length / 2u);
        }
        write_costs(r, file, s->cost);
    }
    for (size_t i = 0; i < r->cuts.size; i++) {
        const bp_cut_t *c = r->cuts.place[i];
        if (c == NULL || c->count == 0) {
            continue;
        }
        const bp_block_t *b = c->slot->block;
        uint64_t from = c->executed == 0 ? b->insn[0].address : after(&b->insn[c->executed - 1]);
        fprintf(file, "not %" PRIu32 " %" PRId64 " %" PRIx64 " ", c->slot->node, c->count, from);
        for (uint32_t k = c->executed; k < b->count; k++) {
            fprintf(file, "%x", b->insn[k].length / 2u);
        }
        fputc('\n', file);
    }
}

static void write_record(const bp_recorder_t *r, const char *state) {
    char *path = NULL;
    if (asprintf(&path, "%s.new", r->record) < 0) {
        path = NULL;
    }
    FILE *file = fopen(must(path), "w");
    bool ok = file != NULL;
    if (ok) {
        fputs("boardprof-record 1\ncolumns instructions", file);
        for (size_t i = 0; i < r->columns; i++) {
            fprintf(file, " %s", r->names[i]);
        }
        fprintf(file, "\nstate %s\ntotal", state);
        for (size_t i = 0; i <= r->columns; i++) {
            fprintf(file, " %" PRIu64, r->total[i] - r->aside[i]);
        }
        fputc('\n', file);
        write_nodes(r, file);
        if (r->pipes == NULL) {
            write_counts(r, file);
        } else {
            write_passes(r, file);
        }
        fputs("end\n", file);
        ok = ferror(file) == 0;
        ok = fclose(file) == 0 && ok;
        ok = ok && rename(path, r->record) == 0;
    }
    if (!ok) {
        fprintf(stderr, "boardprof recorder: cannot write %s: %s\n", r->record, strerror(errno));
    }
    free(path);
}

static void end(bp_recorder_t *r, const char *state) {
    pop_to(r, 0);
    r->recording = false;
    bool is_mixed = r->is_unsure && strcmp(state, "complete") == 0;
    write_record(r, r->is_unanswered ? "incomplete costs"
                    : r->too_deep    ? "incomplete too-deep"
                    : is_mixed       ? "incomplete tasks"
                                     : state);
}

static void begin(bp_recorder_t *r, const bp_block_t *block) {
    (void)unlink(r->record); /* of an earlier call: a call that hangs must not have it */
    r->recording = true;
    r->armed = false;
    r->generation++;
    r->vector_count = r->planned_vectors;
    r->node_count = 0;
    r->handlers = 0;
    r->depth = 0;
    r->too_deep = false;
    r->is_unsure = false;
    r->stack_begin = r->core.stack != NULL ? r->core.stack() : 0;
    memset(r->total, 0, sizeof r->total);
    memset(r->aside, 0, sizeof r->aside);
    empty_tables(r);
    r->pass = NULL;
    r->from = BP_UNKNOWN;
    (void)add_node(r, BP_NO_NODE, entry_of(r, block));
    (void)add_node(r, BP_NO_NODE, 0);
    (void)add_node(r, BP_NO_NODE, 0);
    (void)push(r, BP_ROOT, NULL);
}

/* The last instruction of a block that began. */
static uint32_t last_of(const bp_block_t *block, uint32_t stops) {
    uint32_t at = block->count - 1;
    if (stops < block->stops && stops != 0) {
        for (at = 0; stops > 1 || !block->insn[at].can_stop; at++) {
            stops -= block->insn[at].can_stop;
        }
    }
    return at;
}

/* A handler does not return. Then it is one of a trap, and what trapped was not executed, nor what
 * came after it in its block. (Only a time limit's interrupt can have come later.) */
static void drop_trapped(bp_recorder_t *r) {
    size_t d = 0;
    while (d < r->depth && !r->frames[d].is_handler) {
        d++;
    }
    if (d == r->depth) {
        return;
    }
    bp_frame_t f = r->frames[d];
    pop_to(r, d);
    uint32_t at = f.at;
    while (at != 0 && !f.block->insn[at].can_stop) {
        at--;
    }
    if (f.is_open || !f.block->insn[at].can_stop) {
        return;
    }
    if (f.at + 1 != f.block->count) {
        cut(r, f.slot, f.pass, f.at + 1, -1);
    }
    cut(r, f.slot, f.pass, at, 1);
}

/* Execution has come back to the agent. */
static void leave(bp_recorder_t *r, const bp_block_t *block) {
    size_t d = r->depth - 1;
    while (r->frames[d].tail) {
        d--;
    }
    bool is_return = d == 0 && block->role != BP_ROLE_OUTSIDE;
    if (!is_return) {
        drop_trapped(r);
    }
    end(r, is_return ? "complete" : "incomplete left");
}

/* Follow control to a block of other code, or from an instruction that is more than a jump. */
static void follow(bp_recorder_t *r, bp_block_t *last, uint32_t stops, bp_block_t *block) {
    uint32_t at = last_of(last, stops);
    const bp_insn_t *insn = &last->insn[at];
    if (block->role == BP_ROLE_INSIDE && !explains(r, insn, block)) {
        suspend(r, last, at, block);
        return;
    }
    if (at + 1 != last->count) {
        cut(r, r->slot, r->pass, at + 1, 1);
    }
    leave_path(r, r->slot, at, block);
    if (block->role != BP_ROLE_INSIDE) {
        leave(r, block);
    } else {
        transfer(r, insn, last, block);
    }
}

void bp_recorder_arrive(bp_recorder_t *r, bp_block_t *block, uint32_t stops) {
    bp_block_t *last = r->block;
    r->block = block;
    bool is_plain = false;
    if (r->recording) {
        is_plain = stops == last->stops && block->function == last->function && last->goes_on;
        if (!is_plain) {
            follow(r, last, stops, block);
        }
    } else if (block->is_entry && r->armed && r->near != 0) {
        begin(r, block);
    }
    if (r->recording) {
        if (is_plain && r->pipes != NULL) {
            count_next(r, block);
        } else {
            count(r, block);
        }
        if (r->has_tasks && r->core.stack != NULL) {
            uint64_t sp = r->core.stack();
            r->stack_last = sp != 0 ? sp : r->stack_last;
        }
    } else if (block->role != BP_ROLE_INSIDE) {
        r->armed = block->role == BP_ROLE_WINDOW || (r->armed && block->role == BP_ROLE_THUNK);
        r->near = BP_NEAR;
    } else if (r->near != 0) {
        r->near--;
    }
}

/// The plan ///

static int by_low(const void *a, const void *b) {
    const bp_range_t *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

static void add_range(bp_range_t **list, size_t *count, bp_range_t range) {
    if ((*count & (*count - 1)) == 0) { /* doubles at each power of two */
        *list = must(realloc(*list, (*count == 0 ? 1 : *count * 2) * sizeof(**list)));
    }
    (*list)[(*count)++] = range;
}

void bp_recorder_core(bp_recorder_t *r, bp_core_t core) {
    r->core = core;
}

void bp_recorder_interrupt(bp_recorder_t *r, uint64_t address) {
    if (r->planned_vectors < BP_VECTORS) {
        r->vectors[r->planned_vectors++] = address;
    }
}

/* Take a line of a plan. */
static bool planned(bp_recorder_t *r, const char *line) {
    bp_range_t range = {0};
    uint64_t address;
    int path = 0;
    if (sscanf(line, "record %n%*c", &path) == 0 && path != 0 && line[path] != '\0') {
        r->record = must(strdup(line + path));
        return true;
    }
    if (strncmp(line, "cost ", 5) == 0 && r->columns < BP_COLUMNS) {
        r->names[r->columns++] = must(strdup(line + 5));
        return true;
    }
    if (strncmp(line, "ask ", 4) == 0 && r->pipes == NULL) {
        r->pipes = must(strdup(line + 4));
        return true;
    }
    if (sscanf(line, "enter %" SCNx64, &range.low) == 1) {
        add_range(&r->entries, &r->entry_count, range);
        return true;
    }
    if (sscanf(line, "paths %" SCNu32, &r->path_limit) == 1) {
        return true;
    }
    if (sscanf(line, "interrupt %" SCNx64, &address) == 1) {
        bp_recorder_interrupt(r, address);
        return true;
    }
    if (sscanf(line, "function %" SCNx64 " %" SCNx64, &range.low, &range.high) == 2) {
        add_range(&r->functions, &r->function_count, range);
        return true;
    }
    static const struct {
        const char *form;
        bp_role_t role;
    } roles[] = {{"window %" SCNx64 " %" SCNx64, BP_ROLE_WINDOW},
                 {"thunk %" SCNx64 " %" SCNx64, BP_ROLE_THUNK},
                 {"outside %" SCNx64 " %" SCNx64, BP_ROLE_OUTSIDE}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (sscanf(line, roles[i].form, &range.low, &range.high) == 2) {
            range.role = roles[i].role;
            add_range(&r->ranges, &r->range_count, range);
            return true;
        }
    }
    return false;
}

static bool read_plan(bp_recorder_t *r, const char *plan) {
    FILE *file = fopen(plan, "r");
    char *line = NULL;
    size_t room = 0;
    bool ok = file != NULL;
    for (int number = 1; ok && getline(&line, &room, file) > 0; number++) {
        line[strcspn(line, "\n")] = '\0';
        ok = number == 1 ? strcmp(line, "boardprof-plan 1") == 0 : planned(r, line);
        if (!ok) {
            fprintf(stderr, "boardprof recorder: %s, line %d: %s is not understood\n", plan, number,
                    line);
        }
    }
    if (file == NULL) {
        fprintf(stderr, "boardprof recorder: %s: %s\n", plan, strerror(errno));
    } else {
        fclose(file);
        if (ok && r->record == NULL) {
            fprintf(stderr, "boardprof recorder: %s names no record\n", plan);
            ok = false;
        }
    }
    free(line);
    return ok;
}

/* Open the pipes to the host, which has opened them already. */
static bool open_pipes(bp_recorder_t *r) {
    char *ask = NULL, *told = NULL;
    if (asprintf(&ask, "%s.ask", r->pipes) < 0 || asprintf(&told, "%s.told", r->pipes) < 0) {
        must(NULL);
    }
    r->questions = fopen(ask, "w");
    r->answers = r->questions == NULL ? NULL : fopen(told, "r");
    if (r->answers == NULL) {
        fprintf(stderr, "boardprof recorder: %s: %s\n", r->questions == NULL ? ask : told,
                strerror(errno));
    }
    free(ask);
    free(told);
    return r->answers != NULL;
}

bp_recorder_t *bp_recorder_open(const char *plan, const char *const *columns) {
    bp_recorder_t *r = must(calloc(1, sizeof(*r)));
    r->path_limit = BP_PATHS;
    size_t charged = 0;
    for (; columns != NULL && columns[charged] != NULL && charged < BP_COLUMNS; charged++) {
        r->names[r->columns++] = must(strdup(columns[charged]));
    }
    empty_table(&r->blocks, false);
    bool ok = read_plan(r, plan);
    if (ok && (r->columns != charged) != (r->pipes != NULL && charged == 0)) {
        fprintf(stderr, "boardprof recorder: %s has costs that nobody tells\n", plan);
        ok = false;
    }
    if (!ok || (r->pipes != NULL && !open_pipes(r))) {
        bp_recorder_close(r);
        return NULL;
    }
    qsort(r->functions, r->function_count, sizeof(*r->functions), by_low);
    /* Room for the limit, the roots included. */
    r->path_limit = r->path_limit < BP_OTHER + 1 ? BP_OTHER + 1 : r->path_limit;
    r->nodes = must(calloc(r->path_limit, sizeof(*r->nodes)));
    return r;
}

void bp_recorder_close(bp_recorder_t *r) {
    if (r->recording) {
        end(r, "incomplete ended");
    }
    empty_table(&r->blocks, true);
    empty_tables(r);
    free(r->blocks.place);
    free(r->slots.place);
    free(r->edges.place);
    free(r->passes.place);
    free(r->exits.place);
    free(r->cuts.place);
    free(r->totals.place);
    free(r->children.place);
    for (size_t i = 0; i < r->columns; i++) {
        free(r->names[i]);
    }
    if (r->questions != NULL) {
        (void)fclose(r->questions);
    }
    if (r->answers != NULL) {
        (void)fclose(r->answers);
    }
    free(r->pipes);
    free(r->entries);
    free(r->functions);
    free(r->ranges);
    free(r->nodes);
    free(r->frames);
    free(r->record);
    free(r);
}
