/* SPDX-License-Identifier: Apache-2.0 */
/* More names than a record's byte can number. */

#include "boardprof/bp_trace.h"
#include "probes.h"

#if BP_CFG_TRACE

void test_shared_elsewhere(void) {
    BP_MARK(shared);
}

/* For each of 300 numbers of three digits. */
#define TENS(do, n) \
    ONES(do, n##0)  \
    ONES(do, n##1)  \
    ONES(do, n##2)  \
    ONES(do, n##3)  \
    ONES(do, n##4) ONES(do, n##5) ONES(do, n##6) ONES(do, n##7) ONES(do, n##8) ONES(do, n##9)
#define ONES(do, n) \
    do              \
    (n##0) do(n##1) do(n##2) do(n##3) do(n##4) do(n##5) do(n##6) do(n##7) do(n##8) do(n##9)
#define ALL(do) TENS(do, 0) TENS(do, 1) TENS(do, 2)

#define MARK_CASE(n)   \
    case 1##n - 1000:  \
        BP_MARK(m##n); \
        break;
#define VALUE_CASE(n)          \
    case 1##n - 1000:          \
        BP_VALUE(v##n, value); \
        break;

void test_many_mark(uint32_t index) {
    switch (index) { ALL(MARK_CASE) default : break; }
}

void test_many_value(uint32_t index, uint32_t value) {
    switch (index) { ALL(VALUE_CASE) default : break; }
}

#endif
