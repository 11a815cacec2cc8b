/* SPDX-License-Identifier: Apache-2.0 */
/* What the core waits for in a cycle, from the signals of its data bus and of its ID stage. */

#ifndef SIM_WAITS_H
#define SIM_WAITS_H

class Vsoc;

class Waits {
  public:
    bool fetch = false;    /* nothing is in ID, which is ready for an instruction */
    bool data = false;     /* a load or a store has requested data that have not arrived */
    bool multiply = false; /* a product is not finished */
    bool divide = false;   /* a quotient or a remainder is not finished */

    /* Look at the signals as they are before a rising edge. */
    void cycle(const Vsoc &soc);

  private:
    bool outstanding_ = false; /* the core has requested data that have not arrived */
};

#endif
