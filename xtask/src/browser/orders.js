// Runs on a page of random ledgers with changes. The script that judges a changed ledger must find the
// conflicts that the checker found.
const checks = [];
const check = (name, found) => checks.push(found === true ? `ok ${name}` : `FAILED ${name}: ${JSON.stringify(found).slice(0, 600)}`);

casesReady.then(async page => {
  let judged = 0, conflicts = 0, overlapping = 0, wrong = null;
  for (const [number, one] of page.cases.entries()) {
    const run = await page.unpack(one), judge = page.makeJudge(run, one.facts);
    for (const [at, change] of one.cases.entries()) {
      const found = judge(change);
      if (found.overlaps) { overlapping++; continue; }
      const pairs = found.first.map((first, n) => {
        const begin = run.blockBegin[found.block[n]], to = found.to[n];
        return [first, found.second[n], found.block[n], run.cellBegin[found.from[n]] - begin, run.cellBegin[to] + run.cellBytes[to] - begin].join(' ');
      });
      const expected = change.pairs.map(pair => pair.join(' '));
      judged++;
      conflicts += expected.length;
      if (wrong === null && JSON.stringify(pairs.sort()) !== JSON.stringify(expected.sort()))
        wrong = { ledger: number, case: at, missing: expected.filter(pair => !pairs.includes(pair)), added: pairs.filter(pair => !expected.includes(pair)) };
    }
  }
  check('the script finds the conflicts that the checker finds', wrong === null || wrong);
  check('there are conflicts', conflicts > 1000 || conflicts);
  check('most ledgers are judged', judged > 10 * overlapping || [judged, overlapping]);
  check('the page reported no error', window.trouble.length === 0 || window.trouble);
  for (const line of checks) console.log(`check: ${line}`);
  console.log(`check: frames: ${page.cases.length} random ledgers, judged ${judged} times, ${conflicts} conflicts; ${overlapping} not judged`);
  console.log('check: all done');
}, error => { console.log(`check: FAILED to open: ${error}`); console.log('check: all done'); });
