/* SPDX-License-Identifier: Apache-2.0 */
/* The far side of the byte port: a TCP connection to the host, which listens. */

#ifndef SIM_LINE_H
#define SIM_LINE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/* The core gets one frame at a time, when it waits for one. When the host's bytes arrive is chance,
 * but so what the core does in which cycle depends on the bytes alone: two runs are the same, even
 * with caches. */
class Line {
  public:
    /* Connect to "ADDRESS:PORT". Throws std::runtime_error. */
    explicit Line(const std::string &where);
    ~Line();
    Line(const Line &) = delete;
    Line &operator=(const Line &) = delete;

    bool closed() const {
        return closed_;
    }
    /* Whether the core may take a byte, the next one. */
    bool waiting() const {
        return head_ != released_;
    }
    uint8_t next() const {
        return waiting() ? received_[head_] : 0;
    }
    void take() {
        head_++;
    }

    /* Let the core have the next frame, if it has taken the one before and this one has arrived.
     * Does not block. */
    void release();
    /* The same, but sleep until a frame arrives or the host closes the line. */
    void wait();

    void put(uint8_t byte) {
        to_send_.push_back(byte);
    }
    /* Send what has been put. */
    void flush();

  private:
    void receive(bool block);
    bool release_received();

    int socket_;
    bool closed_ = false;
    size_t head_ = 0;     /* received_[head_..released_] is for the core */
    size_t released_ = 0; /* and the rest later */
    std::vector<uint8_t> received_;
    std::vector<uint8_t> to_send_;
};

#endif
