// Runs after the own script of the page of a ledger. The page has the times that Trijet computed for each
// fix and for other chunks, and the answers of the checker to deleted waits.
const checks = [];
const check = (name, found) => checks.push(found === true ? `ok ${name}` : `FAILED ${name}: ${JSON.stringify(found)}`);
const by = id => document.getElementById(id);

whatIfReady.then(page => {
  const { source, run, ledger } = page, times = [];
  const timed = change => {
    const begin = performance.now();
    change();
    times.push(performance.now() - begin);
    return page.length();
  };
  const updated = () => timed(() => page.update());
  check('the replay without a change takes the time that Trijet computed', page.unchanged === source.replayed || [page.unchanged, source.replayed]);
  for (const [name, , replayed] of source.fixes) {
    page.fixes.add(name);
    const length = updated();
    check(`the replay with ${name} takes the time that Trijet computed`, length === replayed || [length, replayed]);
    page.fixes.clear();
  }
  updated();
  check('the unchanged run is judged as the checker judged it', ledger.isJudged() || by('conflicts').textContent);
  const own = source.ledger.conflicts;
  check('the conflicts of the run are stated', by('conflicts').textContent.includes(own === 0 ? 'no conflict' : `${own} conflict`) || by('conflicts').textContent);

  for (const [wait, time] of source.ledger.without) {
    ledger.deleted.add(wait);
    const length = updated();
    check(`the replay without the wait ${wait} of a stream takes the time that Trijet computed`, length === time || [length, time]);
    ledger.deleted.clear();
  }
  // The answers of the checker: the index of a wait, and the number of conflicts without it.
  for (const [at, expected] of window.answers?.each ?? []) {
    const wait = Array.from(run.waitEntry).findIndex(entry => run.oAt[entry - 1] === at);
    check(`the wait #${at} is on the page`, wait >= 0);
    ledger.deleted.add(wait);
    updated();
    check(`without the wait #${at} the page finds the conflicts of the checker`, ledger.isJudged() && ledger.fresh().length === expected || [ledger.fresh().length, expected]);
    ledger.deleted.clear();
  }
  updated();

  // The buttons of an operation that waits.
  const buttons = () => [...document.querySelectorAll('#actions button')];
  const undoAll = () => {
    for (let left = 20; left > 0 && document.querySelector('#edits button'); left--) document.querySelector('#edits button').click();
    check('undone edits have no effect', page.length() === page.unchanged && ledger.fresh().length === 0 || [page.length(), ledger.fresh().length]);
  };
  const inMiddle = item => run.itemChunk[item] > 8;
  const waiting = Array.from(run.waitItem).find(item => run.itemKind[item] === 5 && inMiddle(item));
  if (waiting !== undefined) {
    page.select(waiting);
    const [one, every] = buttons();
    check('an operation offers to delete its wait', /^delete the wait for GPU/.test(one.textContent) || one.textContent);
    timed(() => one.click());
    check('a deleted wait leaves a pair without an order', by('conflicts').textContent === 'The changes leave 1 pair of accesses without an order.' || by('conflicts').textContent);
    check('the pair is named with its memory and its wait', /upload.*block\d+, bytes 0 to \d+GPU 0, .* waits for an event/.test(by('pairs').textContent) || by('pairs').textContent);
    check('the verdict names the conflict', /With 1 change: .*but with 1 conflict\./.test(by('verdict').textContent) || by('verdict').textContent);
    const short = page.length();
    timed(() => by('mend').click());
    check('the waits that it needs take no less time', page.length() >= short && page.length() === ledger.mended() || [page.length(), short]);
    timed(() => by('mend').click());
    check('the box is undone', page.length() === short || [page.length(), short]);
    undoAll();
    page.select(waiting);
    timed(() => buttons()[1].click());
    check('all waits of the row can be deleted', ledger.fresh().length > 1 && every !== undefined || ledger.fresh().length);
    timed(() => by('mend').click());
    check('with all waits again the run takes about its time', Math.abs(page.length() - page.unchanged) <= .02 * page.unchanged || [page.length(), page.unchanged]);
    by('mend').click();
    undoAll();

    page.select(waiting);
    timed(() => buttons().find(button => button.textContent === 'move to that stream').click());
    check('an operation that moved without its waits conflicts', page.moved.size === 1 && ledger.fresh().length > 0 || [page.moved.size, ledger.fresh().length]);
    undoAll();
    page.select(waiting);
    timed(() => buttons().at(-1).click());
    check('all operations of a row can move', page.moved.size > 8 && ledger.fresh().length > 8 || [page.moved.size, ledger.fresh().length]);
    undoAll();
  }
  const sync = Array.from(run.itemKind).findIndex((kind, item) => kind === 0 && run.itemEntry[item] > 0);
  if (sync >= 0) {
    page.select(sync);
    timed(() => buttons()[0].click());
    check('a deleted wait of the host is judged', ledger.isJudged() && page.noWait.size === 1 || by('conflicts').textContent);
    undoAll();
  }

  if (source.ring) {
    check('the model of the chunks takes the times that Trijet computed', source.ring.samples.every(([bytes, depth, time]) => page.ring.run(bytes, depth) === time) || source.ring.samples);
    const set = (id, value) => { by(id).value = value; by(id).dispatchEvent(new Event('input')); };
    timed(() => set('ring-depth', 1));
    check('one slot takes longer', /in 1 slot: .* longer/.test(by('ring-time').textContent) || by('ring-time').textContent);
    set('ring-depth', 0);
    check('no slot is refused', /at least one slot/.test(by('ring-time').textContent) || by('ring-time').textContent);
    by('ring-reset').click();
    check('the measured chunks come back', /^As measured/.test(by('ring-time').textContent) || by('ring-time').textContent);
  }

  const press = key => by('canvas').dispatchEvent(new KeyboardEvent('keydown', { key }));
  page.select(null);
  press('ArrowDown');
  const first = by('name').textContent;
  check('a key selects an operation', !by('selected').hidden && first.length > 0 || first);
  press('ArrowDown');
  check('a key selects in the next row', by('name').textContent !== first || first);
  check('the page does not scroll to the right', document.documentElement.scrollWidth <= innerWidth || document.documentElement.scrollWidth);
  check('the page reported no error', window.trouble.length === 0 || window.trouble);
  for (const line of checks) console.log(`check: ${line}`);
  times.sort((a, b) => a - b);
  console.log(`check: frames: ${run.oStep.length} entries, ${run.itemStart.length} items, ${source.columns.find(([name]) => name === 'back')[4]} edges; a change answers after ${times[times.length >> 1].toFixed(1)} ms, at most ${times[times.length - 1].toFixed(1)} ms`);
  console.log('check: all done');
}, error => { console.log(`check: FAILED to open: ${error} ${error.stack}`); console.log('check: all done'); });
