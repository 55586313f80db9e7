// Runs after the own script of the page of a traced program, and uses it as a reader would.
const opened = timelineReady.then(() => performance.now());
timelineReady.then(async () => {
  const checks = [];
  const check = (name, found) => checks.push(found === true ? `ok ${name}` : `FAILED ${name}: ${JSON.stringify(found)}`);
  const { state, rows, draw, count } = window.timeline;
  const sheet = document.getElementById('canvas');
  const by = id => document.getElementById(id);
  const press = key => sheet.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
  const point = (type, x, y) => {
    const at = sheet.getBoundingClientRect();
    sheet.dispatchEvent(new PointerEvent(type, { clientX: at.left + x, clientY: at.top + y, bubbles: true, cancelable: true }));
  };
  const pause = () => new Promise(done => setTimeout(done));

  check('the page has operations', count > 1000 || count);
  check('communication has a row of its own', rows.some(row => row.kind === 'engine' && row.fullName === 'communication'));
  check('each device has a heading', state.heads.length >= 2 || state.heads);
  check('the timeline is visible without scrolling',
    sheet.getBoundingClientRect().top + 100 < innerHeight || sheet.getBoundingClientRect().top);
  const link = document.querySelector('.losses a[href^="#t="]');
  const [from, to] = link.hash.slice(3).split(',').map(Number);
  location.hash = link.hash;
  dispatchEvent(new HashChangeEvent('hashchange'));
  check('the link of a finding shows the time of the finding', state.from <= from && to <= state.to || [state.from, from, to, state.to]);
  press('Escape');
  press('f');

  // For each frame and each step of the search, only the time of the script is measured.
  by('streams').click();
  by('threads').click();
  // The browser prepares its code and its fonts in the first frames.
  draw();
  window.timeline.zoom(.9);
  draw();
  const frames = [], apart = [];
  const frame = () => new Promise(requestAnimationFrame);
  let last = await frame();
  for (let n = 0; n < 80; n++) {
    if (n < 35) window.timeline.zoom(.7); else if (n < 55) window.timeline.move(.13); else window.timeline.zoom(1.6);
    const start = performance.now();
    draw();
    frames.push(performance.now() - start);
    const now = await frame();
    apart.push(now - last);
    last = now;
  }
  press('f');
  let longest = 0;
  const searching = performance.now();
  const own = window.setTimeout;
  // The page starts each further step of a search by a timer, so the timer is wrapped to measure the steps.
  window.setTimeout = (run, ...rest) => own(() => {
    const start = performance.now();
    run();
    longest = Math.max(longest, performance.now() - start);
  }, ...rest);
  const typed = performance.now();
  by('search').value = 'softmax';
  by('search').dispatchEvent(new Event('input', { bubbles: true }));
  longest = Math.max(longest, performance.now() - typed);
  while (!/operation/.test(by('found').textContent)) await new Promise(done => own(done));
  const searched = performance.now() - searching;
  window.setTimeout = own;
  check('the search finds operations', state.matchCount > 100 || state.matchCount);
  press('Escape');
  by('search').value = 'gemm';
  by('search').dispatchEvent(new Event('input', { bubbles: true }));
  by('search').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
  while (!/operation/.test(by('found').textContent)) await new Promise(done => own(done));
  check('Enter during a search goes to a match when the search has ended',
    state.matches[state.selected] === 1 && /gemm/.test(window.timeline.label(state.selected)) || state.selected);
  const fading = performance.now();
  draw();
  frames.push(performance.now() - fading);
  by('search').value = '';
  by('search').dispatchEvent(new Event('input', { bubbles: true }));

  const summing = performance.now();
  point('pointerdown', 140, 60);
  point('pointermove', sheet.clientWidth - 10, 70);
  point('pointerup', sheet.clientWidth - 10, 70);
  const summed = performance.now() - summing;
  check('a selection shows its sums', !by('statistics').hidden);
  point('pointermove', 500, 60);
  press('Escape');
  check('Escape hides the card', by('card').hidden);
  await pause();
  check('the page reported no error', window.trouble.length === 0 || window.trouble);
  for (const line of checks) console.log(`check: ${line}`);
  for (const list of [frames, apart]) list.sort((a, b) => a - b);
  const ms = time => `${time.toFixed(1)} ms`;
  console.log(`check: frames: ${count} items, opened after ${ms(await opened)}; median ${ms(frames[frames.length >> 1])}, longest ${ms(frames[frames.length - 1])}, at most ${ms(apart[apart.length - 1])} apart; ` +
    `search ${ms(searched)} in steps of at most ${ms(longest)}; sum of a selection ${ms(summed)}`);
  console.log('check: all done');
});
