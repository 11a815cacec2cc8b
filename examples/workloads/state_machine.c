/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a GPS receiver's NMEA 0183 stream byte by byte: fixes, other sentences and damaged ones.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void state_machine_setup(void);
void state_machine(void);
int state_machine_check(void);

/* A sentence has at most 82 characters. $, CR and LF are not counted here. */
enum { SENTENCE_MAX = 79, FIELD_MAX = 12, TRACK_MAX = 16 };

/* How a sentence ended. */
enum { FIX, NO_FIX, OTHER, BAD_SUM, ABORTED, OUTCOMES };

typedef struct {
    int32_t time_s; /* of the day, UTC */
    int32_t latitude_udeg, longitude_udeg;
    int32_t altitude_dm;
} fix_t;

typedef struct {
    enum { IDLE, BODY, SUM_HIGH, SUM_LOW } state;
    uint8_t sum;           /* exclusive or of all characters between $ and * */
    uint8_t sent_sum_high; /* first digit after the *, shifted into place */
    uint8_t length;        /* characters since the $ */
    uint8_t field;         /* 0 is the address, such as GPGGA */
    uint8_t field_length;
    char text[FIELD_MAX]; /* the current field, always terminated */
    bool is_gga;
    bool is_valid;
    fix_t fix; /* what this sentence has contained so far */
} parser_t;

/*
 * A log with everything that occurs on a real line: boot noise, all hemispheres, no fix, a flipped
 * digit, an invalid digit, sentences cut off by a new one or by a line end, or too long.
 */
static const char stream[] =
    "~~ gnss boot 3.1, checksum*on\r\n"
    "$GPGGA,081530.00,5419.3821,N,01009.1234,E,1,08,0.9,4.2,M,43.1,M,,*6F\r\n"
    "$GPRMC,081530.00,A,5419.3821,N,01009.1234,E,2.1,084.4,230324,,*3E\r\n"
    "$GPGGA,081531.00,3351.5080,S,15112.9060,E,2,10,1.0,-2.7,M,19.6,M,,*5A\r\n"
    "$GPGGA,081532.00,,,,,0,00,99.9,,,,,,*52\r\n"
    "$GPGGA,081533.00,5419.8821,N,01009.1234,E,1,08,1.0,4.2,M,43.1,M,,*64\r\n"
    "$GPGSV,1,1,03,04,51,210,42,09,23,068,38,17,75,121,45*45\r\n"
    "$GPGGA,081534.00,5419.3821,N,01009.1234,E,1,08,1.0,4.2,M,43.1,M,,*6g\r\n"
    "$GPGGA,081535.00,5419.38"
    "$GPGGA,235959.00,4042.6,N,07400.5,W,1,05,2.4,10.15,M,-33.0,M,,*56\r\n"
    "$GPRMC,081536.00,A\r\n"
    "$GPTXT,01,01,02,the longest sentence there may be: this one has 82 characters*63\r\n"
    "$GPTXT,01,01,02,this sentence is one longer than that, though its sum is right*49\r\n"
    "$GNGGA,000000.00,0000.0001,S,17959.9999,W,5,12,1.6,,M,0,M,,*7F\r\n";

enum { COPIES = 4, STREAM_LENGTH = sizeof stream - 1, RECEIVED = COPIES * STREAM_LENGTH };

static char received[RECEIVED];
static parser_t parser;
static uint16_t outcomes[OUTCOMES];
static fix_t track[TRACK_MAX];

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* "12.345" to 2 places is 1234. At most nine digits in all, so that no text can overflow. */
static int32_t decimal(const char *text, int places) {
    bool negative = *text == '-';
    int32_t value = 0;
    text += negative;
    for (int digits = places; digits < 9 && is_digit(*text); digits++) {
        value = value * 10 + (*text++ - '0');
    }
    text += *text == '.';
    for (; places > 0; places--) {
        value = value * 10 + (is_digit(*text) ? *text++ - '0' : 0);
    }
    return negative ? -value : value;
}

/* hhmmss.ss to seconds. */
static int32_t time_of_day(const char *text) {
    int32_t hhmmss = decimal(text, 0);
    return hhmmss / 10000 * 3600 + hhmmss / 100 % 100 * 60 + hhmmss % 100;
}

/* dddmm.mmmm to microdegrees: 1e-4 minutes are 5/3 microdegrees. */
static int32_t angle(const char *text) {
    int32_t value = decimal(text, 4);
    return value / 1000000 * 1000000 + (value % 1000000 * 5 + 1) / 3;
}

static void end_field(parser_t *p) {
    const char *text = p->text;
    if (p->field == 0) { /* two letters for the talker, three for the sentence */
        p->is_gga = p->field_length == 5 && text[2] == 'G' && text[3] == 'G' && text[4] == 'A';
    } else if (p->is_gga) {
        switch (p->field) {
        case 1:
            p->fix.time_s = time_of_day(text);
            break;
        case 2:
            p->fix.latitude_udeg = angle(text);
            break;
        case 3:
            p->fix.latitude_udeg *= *text == 'S' ? -1 : 1;
            break;
        case 4:
            p->fix.longitude_udeg = angle(text);
            break;
        case 5:
            p->fix.longitude_udeg *= *text == 'W' ? -1 : 1;
            break;
        case 6:
            p->is_valid = *text > '0';
            break;
        case 9:
            p->fix.altitude_dm = decimal(text, 1);
            break;
        default:
            break;
        }
    }
    p->field++;
    p->field_length = 0;
    p->text[0] = '\0';
}

static void end_sentence(parser_t *p, int outcome) {
    if (outcome == FIX && outcomes[FIX] < TRACK_MAX) {
        track[outcomes[FIX]] = p->fix;
    }
    outcomes[outcome]++;
    p->state = IDLE;
}

static void feed_body(parser_t *p, char c) {
    if (c == '*') {
        end_field(p);
        p->state = SUM_HIGH;
    } else if (c < ' ' || ++p->length > SENTENCE_MAX - 3) { /* keeps room for * and the sum */
        end_sentence(p, ABORTED);
    } else {
        p->sum ^= (uint8_t)c;
        if (c == ',') {
            end_field(p);
        } else if (p->field_length < FIELD_MAX - 1) {
            p->text[p->field_length++] = c;
            p->text[p->field_length] = '\0';
        }
    }
}

/* A character that is not an upper-case hexadecimal digit makes the sum wrong. */
static void feed_sum(parser_t *p, char c) {
    int digit = is_digit(c) ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) {
        end_sentence(p, BAD_SUM);
    } else if (p->state == SUM_HIGH) {
        p->sent_sum_high = (uint8_t)(digit << 4);
        p->state = SUM_LOW;
    } else if (p->sum != (p->sent_sum_high | digit)) {
        end_sentence(p, BAD_SUM);
    } else {
        end_sentence(p, !p->is_gga ? OTHER : p->is_valid ? FIX : NO_FIX);
    }
}

static void feed(parser_t *p, char c) {
    if (c == '$') { /* starts a sentence anywhere, so that the parser can recover */
        if (p->state != IDLE) {
            end_sentence(p, ABORTED);
        }
        *p = (parser_t){.state = BODY};
    } else if (p->state == BODY) {
        feed_body(p, c);
    } else if (p->state != IDLE) {
        feed_sum(p, c);
    }
}

static void reset(void) {
    for (size_t i = 0; i < OUTCOMES; i++) {
        outcomes[i] = 0;
    }
    parser = (parser_t){.state = IDLE};
}

void state_machine(void) {
    reset(); /* so that every call in a sample does the same work */
    for (size_t i = 0; i < RECEIVED; i++) {
        feed(&parser, received[i]);
    }
}

void state_machine_setup(void) {
    for (size_t i = 0; i < RECEIVED; i++) {
        received[i] = stream[i % STREAM_LENGTH];
    }
    for (size_t i = 0; i < TRACK_MAX; i++) {
        track[i] = (fix_t){0};
    }
    reset();
}

static bool is_same_fix(const fix_t *a, const fix_t *b) {
    return a->time_s == b->time_s && a->latitude_udeg == b->latitude_udeg &&
           a->longitude_udeg == b->longitude_udeg && a->altitude_dm == b->altitude_dm;
}

/* Returns 0; 1 + outcome for the first wrong count; 1 + OUTCOMES if a fix is wrong. */
int state_machine_check(void) {
    /* Counted and converted by hand from the text above: 19.3821' / 60 = 0.323035 degrees. */
    static const uint16_t expected_outcomes[OUTCOMES] = {4, 1, 3, 2, 3};
    static const fix_t expected_fixes[] = {
        {29730, 54323035, 10152057, 42},
        {29731, -33858467, 151215100, -27},
        {86399, 40710000, -74008333, 101},
        {0, -2, -179999998, 0},
    };
    for (int i = 0; i < OUTCOMES; i++) {
        if (outcomes[i] != COPIES * expected_outcomes[i]) {
            return 1 + i;
        }
    }
    for (size_t i = 0; i < TRACK_MAX; i++) {
        if (!is_same_fix(&track[i], &expected_fixes[i % 4])) {
            return 1 + OUTCOMES;
        }
    }
    return 0;
}
