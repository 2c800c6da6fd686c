//! The style sheet of all pages.
//!
//! The line colours are those of Okabe and Ito, distinguishable with any colour vision, darkened
//! for light mode and lightened for dark mode; every colour is accompanied by a word or a dash
//! pattern.

/// The style sheet.
pub(super) const STYLE: &str = r"
:root {
  color-scheme: light dark;
  --page: #f5f6f8; --card: #ffffff; --ink: #16191d; --soft: #56606b; --rule: #dde1e6;
  --one: #0068a3; --two: #b84a00; --three: #5f6873; --four: #a6216d;
  --good: #00664a; --good-tint: #e3f4ee; --poor: #8a3800; --poor-tint: #fdeedd;
  --void: #8c1555; --void-tint: #fbe7f2; --shade: #eceff3;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #101316; --card: #191d22; --ink: #e9ecef; --soft: #a4adb7; --rule: #2f363e;
    --one: #56b4e9; --two: #f0a04b; --three: #98a2ad; --four: #e88bbd;
    --good: #4fd1a5; --good-tint: #12281f; --poor: #f5b05c; --poor-tint: #2d2110;
    --void: #f197c6; --void-tint: #301323; --shade: #22272d;
  }
}
@media print {
  :root {
    color-scheme: light;
    --page: #ffffff; --card: #ffffff; --ink: #000000; --soft: #444c55; --rule: #c9ced4;
    --one: #0068a3; --two: #b84a00; --three: #5f6873; --four: #a6216d;
    --good: #00664a; --good-tint: #ffffff; --poor: #8a3800; --poor-tint: #ffffff;
    --void: #8c1555; --void-tint: #ffffff; --shade: #f0f2f4;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; padding: 2rem 1rem 3rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif;
}
main, header, footer { max-width: 70rem; margin: 0 auto; }
h1 { margin: 0; font-size: 1.75rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 0; font-size: 1.0625rem; line-height: 1.4; }
p { margin: 0; }
.kicker { color: var(--soft); font-size: .875rem; font-weight: 600; }
.about { margin-top: .375rem; color: var(--soft); }
.card {
  min-width: 0; padding: 1.25rem; border: 1px solid var(--rule); border-radius: .75rem;
  background: var(--card);
}
main { display: grid; gap: 1rem; grid-template-columns: minmax(0, 1fr); }

.verdict {
  display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 .875rem;
  margin: 1.25rem auto 1rem;
  padding: 1rem 1.25rem; border: 1px solid; border-left-width: .375rem; border-radius: .75rem;
}
.verdict svg { width: 1.75rem; height: 1.75rem; margin-top: .125rem; }
.verdict strong { display: block; font-size: 1.25rem; line-height: 1.5; letter-spacing: .04em; }
.verdict p, .verdict ul { color: var(--ink); overflow-wrap: anywhere; }
.verdict ul { margin: .375rem 0 0; padding-left: 1.125rem; }
.verdict.passed { color: var(--good); background: var(--good-tint); }
.verdict.completed { color: inherit; }
.verdict.missed, .verdict.failed { color: var(--poor); background: var(--poor-tint); }
.verdict.invalid { color: var(--void); background: var(--void-tint); }

.figures {
  display: flex; flex-wrap: wrap; gap: 1px; margin: 0; padding: 0; overflow: hidden;
  background: var(--rule);
}
.figures div { flex: 1 1 40%; padding: .875rem 1.25rem; background: var(--card); }
.figures dt { color: var(--soft); font-size: .8125rem; }
.figures dd { margin: 0; font-variant-numeric: tabular-nums; }
.figures .value { font-size: 1.5rem; font-weight: 650; line-height: 1.3; white-space: nowrap; }
.figures .note { color: var(--soft); font-size: .8125rem; line-height: 1.4; }

.caption { margin-top: .125rem; color: var(--soft); font-size: .875rem; max-width: 46rem; }
.legend {
  display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .75rem 0 0; padding: 0;
  list-style: none; font-size: .875rem;
}
.legend li { display: flex; align-items: center; gap: .5rem; }
.frame { padding: 1rem .75rem 2rem 4.25rem; }
.drawing { display: block; width: 100%; height: 14rem; overflow: visible; }
#percentiles .drawing, #rates .drawing { height: 19rem; }
.lines { overflow: visible; }
.grid line { stroke: var(--rule); stroke-width: 1; shape-rendering: crispEdges; }
.grid .base { stroke: var(--soft); }
.drawing text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
.warm-up { fill: var(--shade); }
.line {
  fill: none; stroke: currentColor; stroke-width: 2; stroke-linecap: round;
  stroke-linejoin: round; vector-effect: non-scaling-stroke;
}
.fill { fill: currentColor; fill-opacity: .1; stroke: none; }
.one { color: var(--one); }
.two { color: var(--two); }
.three { color: var(--three); }
.four { color: var(--four); }
.dashed { stroke-dasharray: 7 5; }
.dotted { stroke-dasharray: .1 5; }
.dots { stroke-width: 8; stroke-opacity: .7; }
.bound line { stroke: var(--four); stroke-width: 1.25; stroke-dasharray: 2 3; }
.drawing .bound text {
  fill: var(--four); stroke: var(--card); stroke-width: 4; paint-order: stroke; font-weight: 600;
}
.spots rect { fill: transparent; }
.spots rect:hover { fill: currentColor; fill-opacity: .08; }

details { margin-top: .25rem; font-size: .875rem; }
summary { width: fit-content; color: var(--soft); cursor: pointer; }
summary:hover { color: var(--ink); }
:focus-visible { outline: 2px solid var(--one); outline-offset: 2px; border-radius: .25rem; }
.scroll { max-height: 24rem; margin-top: .5rem; overflow: auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .375rem .75rem; border-bottom: 1px solid var(--rule); text-align: right; }
th:first-child, td:first-child { padding-left: 0; text-align: left; }
th:last-child, td:last-child { padding-right: 0; }
thead th { color: var(--soft); font-weight: 600; }
.fractions { max-height: none; font-size: .875rem; }
.fractions th, .fractions td { white-space: nowrap; }
.against { margin: .75rem 0 0; padding-left: 1.125rem; color: var(--soft); font-size: .875rem; }
tbody th { font-weight: 400; white-space: nowrap; }
.outcomes { margin: .75rem 0; font-size: .9375rem; }
.outcomes .meaning { color: var(--soft); text-align: left; }
.outcomes .share { width: 22%; }
.bar { display: block; width: 100%; height: .625rem; }
.bar .rest { fill: var(--shade); }
.bar .part { fill: currentColor; }

.facts { display: grid; margin: .75rem 0 0; grid-template-columns: minmax(0, 1fr); }
.facts { font-size: .875rem; }
.facts dt { color: var(--soft); }
.facts dd { margin: 0 0 .625rem; overflow-wrap: anywhere; }
code, pre { font: .8125rem/1.55 ui-monospace, 'SF Mono', Menlo, Consolas, monospace; }
pre {
  margin: .75rem 0 0; padding: .875rem 1rem; overflow: auto; border-radius: .5rem;
  background: var(--shade);
}
footer { margin-top: 1.5rem; color: var(--soft); font-size: .8125rem; }
.unseen {
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap;
}
@media (min-width: 44rem) {
  body { padding-top: 3rem; }
  h1 { font-size: 2.25rem; }
  .card { padding: 1.5rem; }
  .card.figures { padding: 0; }
  .figures div { flex-basis: 22%; }
  .facts { gap: .5rem 1.5rem; grid-template-columns: 15rem minmax(0, 1fr); }
  .facts dd { margin: 0; }
}
@media (min-width: 64rem) {
  main { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .wide { grid-column: 1 / -1; }
}
@media (max-width: 43.99rem) {
  .outcomes .meaning, .outcomes .share { display: none; }
}
@media print {
  body { padding: 0; font-size: 11pt; }
  main { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .wide { grid-column: 1 / -1; }
  .figures div { flex-basis: 22%; }
  .figures .value { font-size: 1.25rem; }
  .facts { gap: .375rem 1.5rem; grid-template-columns: 14rem minmax(0, 1fr); }
  .facts dd { margin: 0; }
  .card { padding: 1rem; }
  .card.figures { padding: 0; }
  .drawing { height: 10rem; }
  #percentiles .drawing, #rates .drawing { height: 14rem; }
  .card, .verdict { break-inside: avoid; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  details { display: none; }
  .verdict, .figures, .bar, .warm-up { print-color-adjust: exact; }
}
";
