/* SPDX-License-Identifier: Apache-2.0 */
/* The pre-shared key: loading it, proofs and records. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_CLOEXEC */
#endif

#include "bp_key.h"
#include "boardprof/bp_le.h"
#include "bp_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BP_KEY_VARIABLE "BOARDPROF_KEY"

static int bp_key_refuse(const char *what, const char *why) {
    fprintf(stderr, "boardprof: the key %s %s\n", what, why);
    return BP_POSIX_SYSTEM;
}

/// Loading ///

/* Take `length` bytes as the key, without the line feed that an editor adds. */
static int bp_key_take(bp_key_t *key, const char *what, const char *bytes, size_t length) {
    if (length > 0 && bytes[length - 1] == '\n') {
        length--;
    }
    if (length > 0 && bytes[length - 1] == '\r') {
        length--;
    }
    if (length < BP_KEY_MIN) {
        return bp_key_refuse(what, "is too short: 16 bytes at least");
    }
    if (length > BP_KEY_MAX) {
        return bp_key_refuse(what, "is too long: 1024 bytes at most");
    }
    key->length = length;
    memcpy(key->bytes, bytes, length);
    return BP_POSIX_OK;
}

static int bp_key_read(bp_key_t *key, const char *file) {
    char bytes[BP_KEY_MAX + 3]; /* a line end, and one byte more to detect a key that is too long */
    struct stat status;
    size_t length = 0;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        return bp_key_refuse(file, strerror(errno));
    }
    if ((status.st_mode & 077) != 0) {
        close(fd);
        return bp_key_refuse(file, "can be read by others: run chmod 600 on it");
    }
    for (ssize_t got = 1; got > 0 && length < sizeof bytes; length += (size_t)got) {
        got = read(fd, bytes + length, sizeof bytes - length);
        if (got < 0) {
            int number = errno;
            close(fd);
            return bp_key_refuse(file, strerror(number));
        }
    }
    close(fd);
    int err = bp_key_take(key, file, bytes, length);
    explicit_bzero(bytes, sizeof bytes); /* the user's functions will run on this stack */
    return err;
}

/* So that the user's functions, the processes that they start, and /proc do not see the key. */
static void bp_key_forget(char *value) {
    explicit_bzero(value, strlen(value));
    (void)unsetenv(BP_KEY_VARIABLE);
}

int bp_key_load(bp_key_t *key, const char *file) {
    char *value = getenv(BP_KEY_VARIABLE);
    int err = BP_POSIX_OK;
    key->length = 0;
    if (file != NULL) {
        err = bp_key_read(key, file);
    } else if (value != NULL) {
        err = bp_key_take(key, "in " BP_KEY_VARIABLE, value, strlen(value));
    }
    if (value != NULL) {
        bp_key_forget(value);
    }
    return err;
}

/// Proofs ///

void bp_key_derive(const bp_key_t *key, const char *label, const uint8_t nonces[2 * BP_KEY_NONCE],
                   uint8_t mac[BP_KEY_MAC]) {
    uint8_t text[64 + 2 * BP_KEY_NONCE];
    size_t length = strlen(label);
    memcpy(text, label, length);
    memcpy(text + length, nonces, 2 * BP_KEY_NONCE);
    bp_hmac(key->bytes, key->length, text, length + 2 * BP_KEY_NONCE, mac);
}

bool bp_key_equal(const uint8_t *a, const uint8_t *b, size_t length) {
    volatile uint8_t differ = 0;
    for (size_t i = 0; i < length; i++) {
        differ = (uint8_t)(differ | (a[i] ^ b[i]));
    }
    return differ == 0;
}

/// Records ///

static void bp_seal_tag(bp_seal_t *seal, uint8_t *buffer, size_t length, uint8_t mac[BP_KEY_MAC]) {
    bp_put_u64(buffer, seal->counter);
    bp_hmac(seal->key, sizeof seal->key, buffer, BP_RECORD_COUNTER + BP_RECORD_HEAD + length, mac);
}

size_t bp_seal_close(bp_seal_t *seal, uint8_t *buffer, size_t length) {
    uint8_t mac[BP_KEY_MAC];
    uint8_t *payload = bp_put_u16(buffer + BP_RECORD_COUNTER, (uint16_t)length);
    bp_seal_tag(seal, buffer, length, mac);
    memcpy(payload + length, mac, BP_RECORD_TAG);
    seal->counter++;
    return BP_RECORD_HEAD + length + BP_RECORD_TAG;
}

bool bp_seal_open(bp_seal_t *seal, uint8_t *buffer, size_t length) {
    uint8_t mac[BP_KEY_MAC];
    bp_seal_tag(seal, buffer, length, mac);
    seal->counter++;
    return bp_key_equal(mac, buffer + BP_RECORD_COUNTER + BP_RECORD_HEAD + length, BP_RECORD_TAG);
}
