/* SPDX-License-Identifier: Apache-2.0 */
/* Frames as the doorman reads and writes them, with the agent's codec. */

#include <string.h>
#include <sys/socket.h>

#include "boardprof/bp_frame.h"
#include "bp_doorman_frame.h"

void bp_doorman_say(int fd, uint8_t kind, uint16_t session, uint32_t sequence,
                    const uint8_t *owner) {
    uint8_t buffer[BP_FRAME_BUFFER(BP_BUSY_LEN)];
    size_t length = owner != NULL ? BP_BUSY_LEN : 0;
    size_t lead = BP_FRAME_LEAD(BP_FRAME_RAW(BP_BUSY_LEN));
    if (owner != NULL) {
        memcpy(buffer + lead + BP_FRAME_HEADER, owner, BP_BUSY_LEN);
    }
    length = bp_frame_seal(buffer, lead, length, kind, session, sequence);
    /* A host whose socket cannot take even this small frame is not reading anyway. */
    (void)send(fd, buffer, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int bp_doorman_decode(const uint8_t *raw, size_t length, const uint8_t **frame) {
    static bp_receiver_t receiver;
    for (size_t i = 0; i < length; i++) {
        (void)bp_frame_take(&receiver, raw[i]);
    }
    int taken = bp_frame_take(&receiver, 0);
    *frame = receiver.frame;
    return taken == 0 || bp_frame_is_sound(receiver.frame, taken) ? taken : -1;
}
