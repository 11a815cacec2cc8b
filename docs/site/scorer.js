// SPDX-License-Identifier: Apache-2.0
// Order of the search's results: guides come before references, with Sphinx's own scores otherwise.
var Scorer = {
  score: ([page, , , , score]) => score - (/reference-|CHANGELOG|decisions|SPEC/.test(page) ? 4 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
