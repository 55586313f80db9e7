// Runs after the own script of the page of a model. The page has the times that Trijet computed for each
// fix, so the script of the page must compute the same times.
const checks = [];
const check = (name, found) => checks.push(found === true ? `ok ${name}` : `FAILED ${name}: ${JSON.stringify(found)}`);
const by = id => document.getElementById(id);

whatIfReady.then(page => {
  const { source, run } = page, times = [];
  const updated = () => {
    const begin = performance.now();
    page.update();
    times.push(performance.now() - begin);
    return page.length();
  };
  check('the replay without a change takes the time that Trijet computed', page.unchanged === source.replayed || [page.unchanged, source.replayed]);
  for (const [name, , replayed] of source.fixes) {
    page.fixes.add(name);
    const length = updated();
    check(`the replay with ${name} takes the time that Trijet computed`, length === replayed || [length, replayed]);
    page.fixes.clear();
  }
  check('without a fix the time is that of the unchanged run', updated() === page.unchanged || page.length());
  check('the fixes have boxes', document.querySelectorAll('#fixes input').length > 0);

  const box = document.querySelector('#fixes input');
  box.click();
  check('a box applies its fix', page.fixes.size === 1 && page.length() === source.fixes.find(([name]) => name === box.dataset.fix)[2] || page.length());
  check('the verdict names the change', /With 1 change: /.test(by('verdict').textContent) || by('verdict').textContent);
  box.click();

  // The edits of the selected item: the first of each kind, and then all of its row.
  const edited = (kind, of, words) => {
    const item = run.itemKind.indexOf(kind);
    page.select(item);
    const [one, all] = [...document.querySelectorAll('#actions button')];
    check(`a selected item can be changed: ${words}`, one.textContent === words || one.textContent);
    one.click();
    const first = page.length();
    check(`${words}: one is changed`, of().size === 1 && first <= page.unchanged || [of().size, first]);
    const begin = performance.now();
    all.click();
    times.push(performance.now() - begin);
    check(`${words}: all are changed`, of().size > 1 && page.length() <= first || [of().size, page.length()]);
    const changed = page.length();
    document.querySelector('#edits button').click();
    of().clear();
    check(`${words}: an undone change has no effect`, updated() === page.unchanged || page.length());
    return changed;
  };
  const fixed = name => source.fixes.find(([fix]) => fix === name)[2];
  const waits = edited(0, () => page.noWait, 'delete this wait');
  check('to delete all waits of the only thread is the fix of the whole run', waits === fixed('NoWaits') || [waits, fixed('NoWaits')]);
  const locked = edited(9, () => page.pinned, 'page-lock this memory');
  check('to page-lock all copies of the only stream with uploads is the fix of the whole run', locked === fixed('PageLock') || [locked, fixed('PageLock')]);
  edited(5, () => page.moved, 'move to that stream');

  const canvas = by('canvas'), bounds = canvas.getBoundingClientRect();
  const point = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, { bubbles: true, pointerId: 1, clientX: bounds.left + x, clientY: bounds.top + y }));
  canvas.setPointerCapture = () => {};
  const shown = by('range').textContent;
  by('in').click();
  check('the button + shows a shorter time', by('range').textContent !== shown || shown);
  by('fit').click();
  check('the button fit shows the whole run', by('range').textContent === shown || by('range').textContent);
  for (let x = 170; x < 1200 && by('selected').hidden !== false; x += 7) { point('pointerdown', x, 8); point('pointerup', x, 8); }
  check('a click selects an operation', !by('selected').hidden && by('name').textContent.length > 0 || by('name').textContent);
  check('the page does not scroll to the right', document.documentElement.scrollWidth <= innerWidth || document.documentElement.scrollWidth);
  check('the page reported no error', window.trouble.length === 0 || window.trouble);
  for (const line of checks) console.log(`check: ${line}`);
  times.sort((a, b) => a - b);
  console.log(`check: frames: ${run.itemStart.length} items, ${source.columns.find(([name]) => name === 'back')[4]} edges; a change answers after ${times[times.length >> 1].toFixed(1)} ms, at most ${times[times.length - 1].toFixed(1)} ms`);
  console.log('check: all done');
}, error => { console.log(`check: FAILED to open: ${error}`); console.log('check: all done'); });
