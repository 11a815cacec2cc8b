/* SPDX-License-Identifier: Apache-2.0 */
/* Who looks at each cycle of the simulation. */

#ifndef SIM_WATCHER_H
#define SIM_WATCHER_H

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

class Vsoc;

class Watcher {
  public:
    virtual ~Watcher() = default;

    /* Look at the signals as they are before a rising edge. */
    virtual void cycle(const Vsoc &soc) = 0;
};

/* A board may have a watcher of its own, which writes what it counts to the file `path`: calls of
 * the functions at `entries`, each until the first instruction in one of the `stops`. Throws
 * std::runtime_error if the file cannot be written. */
__attribute__((weak)) std::unique_ptr<Watcher>
open_marks(const std::string &path, std::vector<uint32_t> entries,
           std::vector<std::pair<uint32_t, uint32_t>> stops);

#endif
