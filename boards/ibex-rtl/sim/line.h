/* SPDX-License-Identifier: Apache-2.0 */
/* The far side of the byte port: a TCP connection to the host, which listens. */

#ifndef SIM_LINE_H
#define SIM_LINE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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
    bool waiting() const {
        return head_ != received_.size();
    }
    uint8_t next() const {
        return waiting() ? received_[head_] : 0;
    }
    void take() {
        head_++;
    }

    /* Fetch what has arrived, if nothing is waiting. Does not block. */
    void look();
    /* The same, but sleep until something arrives or the host closes the line. */
    void wait();

    void put(uint8_t byte) {
        to_send_.push_back(byte);
    }
    /* Send what has been put. */
    void flush();

  private:
    void receive(bool block);

    int socket_;
    bool closed_ = false;
    size_t head_ = 0; /* received_[head_..] is waiting */
    std::vector<uint8_t> received_;
    std::vector<uint8_t> to_send_;
};

#endif
