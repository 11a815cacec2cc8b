/* SPDX-License-Identifier: Apache-2.0 */

#include "line.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace {

constexpr size_t kChunk = 65536;

sockaddr_in parse(const std::string &where) {
    sockaddr_in address{};
    size_t colon = where.rfind(':');
    address.sin_family = AF_INET;
    if (colon == std::string::npos ||
        inet_pton(AF_INET, where.substr(0, colon).c_str(), &address.sin_addr) != 1) {
        throw std::runtime_error(where + " is not ADDRESS:PORT");
    }
    address.sin_port = htons(static_cast<uint16_t>(std::stoul(where.substr(colon + 1))));
    return address;
}

} // namespace

Line::Line(const std::string &where) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = parse(where);
    if (socket_ < 0 ||
        connect(socket_, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0) {
        throw std::runtime_error("cannot connect to " + where + ": " + std::strerror(errno));
    }
    int on = 1; /* replies are short, and the host waits for each one */
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Line::~Line() {
    close(socket_);
}

void Line::receive(bool block) {
    uint8_t chunk[kChunk];
    ssize_t got = recv(socket_, chunk, kChunk, block ? 0 : MSG_DONTWAIT);
    bool later = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    closed_ = got <= 0 && !later;
    if (got > 0) {
        received_.insert(received_.end(), chunk, chunk + got);
    }
}

/* A frame ends with a 0, and may begin with one (protocol/SPEC.md, section 2). Returns whether a
 * whole one had arrived. */
bool Line::release_received() {
    received_.erase(received_.begin(), received_.begin() + static_cast<ptrdiff_t>(released_));
    head_ = released_ = 0;
    auto first = std::find_if(received_.begin(), received_.end(), [](uint8_t b) { return b != 0; });
    auto end = std::find(first, received_.end(), 0);
    if (end == received_.end()) {
        return false;
    }
    released_ = static_cast<size_t>(end - received_.begin()) + 1;
    return true;
}

void Line::release() {
    pollfd ready{socket_, POLLRDHUP, 0}; /* also end if the core does not read any more */
    if (waiting()) {
        closed_ = poll(&ready, 1, 0) > 0;
    } else if (!release_received()) {
        receive(false);
        release_received();
    }
}

void Line::wait() {
    while (!waiting() && !closed_ && !release_received()) {
        receive(true);
    }
}

void Line::flush() {
    size_t sent = 0;
    while (sent < to_send_.size() && !closed_) {
        ssize_t now = send(socket_, to_send_.data() + sent, to_send_.size() - sent, MSG_NOSIGNAL);
        if (now > 0) {
            sent += static_cast<size_t>(now);
        } else if (errno != EINTR) {
            closed_ = true;
        }
    }
    to_send_.clear();
}
