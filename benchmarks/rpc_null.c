/* SPDX-License-Identifier: Apache-2.0 */
/* What a null call calls. */

void nothing(void);

void nothing(void) {
}
