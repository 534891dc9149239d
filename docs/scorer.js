// Scores of the search: pages for users come before pages about the inside. The numbers below `score`
// are Sphinx's own.
var Scorer = {
  score: ([page, title, anchor, about, score]) => {
    if (/^guide\/|^(faq|glossary)$/.test(page)) return score + 40;
    if (/^(howto|migrate)\//.test(page)) return score + 30;
    if (/^(adr|reproduction|architecture|tour|decisions)/.test(page)) return score - 30;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
