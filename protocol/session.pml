/* SPDX-License-Identifier: Apache-2.0 */
/* The session of SPEC.md 3.1, 4.3 and 4.4 as a model for spin. Hosts, one after another, call one
 * board over a line that loses, repeats and delays anything. Meanwhile both sides are reset.
 *
 *     spin -a session.pml
 *     gcc -O2 -DSAFETY -DNOCLAIM -o pan pan.c && ./pan -m10000
 *     gcc -O2 -o pan pan.c && ./pan -a -m10000
 *
 * The line is the set of all messages that were ever sent: each may arrive at any time, any number
 * of times, or never. That covers unbounded loss, duplication and reordering; a damaged frame is a
 * lost one. So sending again, after a timeout or a NAK, changes nothing. At any moment the line may
 * become `calm`: what was on its way is lost, and from then on each message arrives once, nothing
 * is reset, no deadline passes, and a side that hears nothing sends again. PROGRESS is left out: it
 * only renews deadlines, which pass here at any time or never. Messages of an older session or call
 * are not kept, since the host ignores them: that models the host's check of both numbers.
 *
 * What must hold:
 *  - no call is executed twice (assert in execute);
 *  - an answer that a host accepts is that of its call, executed in the session of the host's
 *    WELCOME, without a reset or another session in between (assert in answered);
 *  - NO_SESSION is only sent when that session is lost (assert in refused);
 *  - no deadlock: on a calm line no call gets stuck (no invalid end state); on any other line its
 *    deadline can end it;
 *  - on a calm line each call ends, with an answer or a reset error (ltl ends).
 *
 * Bounds: HOSTS sessions of CALLS calls, RESETS of the board, BEGINS of sessions on the board. A
 * rule of the protocol looks at two sessions, the board's and the frame's, and at two calls, the
 * last one and the frame's. The third session is the stranger that comes between a session and its
 * own late messages. The second reset hits the recovery from the first. Five begins are one for
 * each session and two by late HELLOs.
 *
 * Each of these switches off one rule, and spin then finds what the rule is for: -DNO_REPLY_CACHE,
 * -DNO_SESSION_CHECK, -DNO_RESET_CHECK, -DNO_RETRANSMISSION. With -DFIXED_SEQUENCE each session
 * begins at number 0. */

#define HOSTS 3
#define CALLS 2
#ifndef RESETS
#define RESETS 2
#endif
#define BEGINS 5 /* until the line is calm; after that each remaining host needs one */
#define ALL_BEGINS (BEGINS + HOSTS)

#define CALL_OF(s, c) ((s) * CALLS + (c))

bool calm;

/* The line to the board. */
bool hello[HOSTS];
bool call[HOSTS * CALLS];

/* The line to the host. An answer is `right` if it is that of the CALL whose numbers it carries,
 * executed in the session of the WELCOME to the CALL's host. */
bool welcome[ALL_BEGINS]; /* what a host that sent HELLO may accept: the begin that it reports */
bool right, no_session; /* what the host with a current call may accept */
bool wrong[HOSTS * CALLS];

/* The board. Begins are counted from 1. Their number represents the boot id, and the first sequence
 * number of the session. */
byte session; /* the host's number + 1, known by id and nonce; 0: no session */
byte begin;   /* of the session, 0: none */
byte begins;
byte resets;
byte last; /* number of the last accepted CALL, counted from the session's first number */
bool busy; /* that CALL is being executed */
bool kept; /* its reply is cached */
byte executing = HOSTS * CALLS; /* or was executed last */

/* The hosts. */
byte welcomed[HOSTS]; /* the begin in its WELCOME; 0: no WELCOME yet */
byte host;            /* the host that has the line */
byte now;             /* its call */
bool executed[HOSTS * CALLS];

#define TAKE(set) if :: calm -> set = false :: else fi
#define UNDER_WAY(s, c) (host == s && now == c && welcomed[s] != 0)

#ifdef FIXED_SEQUENCE
#define NUMBERS_FIT(s) true
#else
#define NUMBERS_FIT(s) (begin == welcomed[s])
#endif

#ifdef NO_SESSION_CHECK
#define OWN(s) true
#else
#define OWN(s) (session == s + 1 && NUMBERS_FIT(s))
#endif

/// The board ///

inline take_hello(s) {
    TAKE(hello[s]);
    if
    :: session != s + 1 && (begins < BEGINS || calm) ->
        begins++;
        begin = begins;
        session = s + 1;
        last = 0;
        kept = false;
        executing = HOSTS * CALLS
    :: else /* a duplicate, or beyond BEGINS: HELLO is lost */
    fi;
    if
    :: session == s + 1 && host == s && welcomed[s] == 0 -> welcome[begin - 1] = true
    :: else
    fi
}

inline execute(s, c) {
    last = c + 1;
    kept = false;
    busy = true;
    executing = CALL_OF(s, c);
    assert(!executed[CALL_OF(s, c)]);
    executed[CALL_OF(s, c)] = true
}

/* The reply has the board's session and the number of the last CALL. */
inline reply() {
    if
    :: session == 0
    :: session != 0 && executing == CALL_OF(session - 1, last - 1) &&
       begin == welcomed[session - 1] ->
        if
        :: UNDER_WAY(session - 1, last - 1) -> right = true
        :: else
        fi
    :: else -> wrong[CALL_OF(session - 1, last - 1)] = true
    fi
}

inline take_call(s, c) {
    TAKE(call[CALL_OF(s, c)]);
    if
    :: OWN(s) && c + 1 > last -> execute(s, c)
    :: OWN(s) && c + 1 == last ->
#ifdef NO_REPLY_CACHE
        execute(s, c)
#else
        if
        :: kept -> reply()
        :: else
        fi
#endif
    :: else ->
        if
        :: UNDER_WAY(s, c) -> no_session = true
        :: else
        fi
    fi
}

#define HELLO(s) :: atomic { !busy && hello[s] -> take_hello(s) }
#define CALL(s, c) :: atomic { !busy && call[CALL_OF(s, c)] -> take_call(s, c) }

active proctype board() {
end:
    do
    HELLO(0) HELLO(1) HELLO(2)
    CALL(0, 0) CALL(0, 1) CALL(1, 0) CALL(1, 1) CALL(2, 0) CALL(2, 1)
    :: atomic { busy -> busy = false; kept = true; reply() }
    :: atomic { !calm && resets < RESETS ->
           resets++;
           session = 0;
           begin = 0;
           last = 0;
           busy = false;
           kept = false;
           executing = HOSTS * CALLS }
    od
}

/// The hosts ///

inline answered() {
    assert(executed[CALL_OF(host, now)]);
    right = false;
    no_session = false;
    now++
}

inline refused() {
    assert(begin != welcomed[host]);
    right = false;
    no_session = false
}

inline forget_welcomes() {
    for (i : 0 .. ALL_BEGINS - 1) { welcome[i] = false }
}

#ifdef NO_RETRANSMISSION
#define SENDS_AGAIN false
#else
#define SENDS_AGAIN calm /* otherwise it would change nothing */
#endif
#define NOTHING_SENT (!busy && !hello[host] && !call[CALL_OF(host, 0)] && !call[CALL_OF(host, 1)])
#define NO_WELCOME                                                                          \
    (!welcome[0] && !welcome[1] && !welcome[2] && !welcome[3] && !welcome[4] && !welcome[5] && \
     !welcome[6] && !welcome[7])
#define NO_ANSWER (!right && !no_session && !wrong[CALL_OF(host, now)])
#define WELCOME(e) :: atomic { welcome[e - 1] -> welcomed[host] = e; forget_welcomes(); break }

active proctype hosts() {
    byte i;
    do
    :: host == HOSTS -> break
    :: host < HOSTS ->
connect:
        hello[host] = true;
        do
        WELCOME(1) WELCOME(2) WELCOME(3) WELCOME(4) WELCOME(5) WELCOME(6) WELCOME(7) WELCOME(8)
        :: atomic { SENDS_AGAIN && NOTHING_SENT && NO_WELCOME -> hello[host] = true }
        :: !calm -> goto over /* the deadline, or the host is killed */
        od;
        do
        :: now == CALLS -> break
        :: now < CALLS ->
            call[CALL_OF(host, now)] = true;
            do
            :: atomic { right -> answered(); break }
            :: wrong[CALL_OF(host, now)] -> assert(false)
            :: atomic { no_session -> refused();
#ifdef NO_RESET_CHECK
                   welcomed[host] = 0;
                   goto connect } /* and send the call again, as if nothing had happened */
#else
                   goto over }
#endif
            :: atomic { SENDS_AGAIN && NOTHING_SENT && NO_ANSWER ->
                   call[CALL_OF(host, now)] = true }
            :: atomic { !calm -> right = false; no_session = false; now++; break } /* deadline */
            :: !calm -> goto over /* the host is killed */
            od
        od;
over:
        atomic { forget_welcomes(); right = false; no_session = false; now = 0; host++ }
    od
}

/// The line ///

active proctype weather() {
    byte i;
end:
    atomic {
        !calm -> calm = true;
        right = false;
        no_session = false;
        forget_welcomes();
        for (i : 0 .. HOSTS - 1) { hello[i] = false }
        for (i : 0 .. HOSTS * CALLS - 1) { call[i] = false; wrong[i] = false }
    }
}

ltl ends { [] (calm -> <> (host == HOSTS)) }
