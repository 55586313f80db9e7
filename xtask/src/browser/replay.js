// Runs after the own script of the page of a replay, in a frame as narrow as a phone.
const checks = [];
const check = (name, found) => checks.push(found === true ? `ok ${name}` : `FAILED ${name}: ${JSON.stringify(found)}`);
const table = document.querySelector('#summary table'), cells = [...table.querySelectorAll('tbody th, tbody td')];
// The elements that extend beyond the right edge, or whose content is wider than the element.
const cut = [...document.querySelectorAll('main *')].filter(one =>
  one.getBoundingClientRect().right > innerWidth || (one.scrollWidth > one.clientWidth && one.clientWidth > 0 && one.tagName !== 'CANVAS'));

check('the window is narrow', innerWidth === 390 || innerWidth);
check('the summary has a figure for each column of each row', cells.length >= 10 && cells.every(cell => cell.textContent.trim()) || cells.length);
check('each figure has the name of its column beside it', cells.every(cell =>
  cell.tagName === 'TH' || getComputedStyle(cell, '::before').content.length > 4));
check('no row is cut', cut.length === 0 || cut.map(one => one.outerHTML.slice(0, 80)));
check('the page does not scroll to the right', document.documentElement.scrollWidth <= innerWidth || document.documentElement.scrollWidth);
check('the page reported no error', window.trouble.length === 0 || window.trouble);
for (const line of checks) console.log(`check: ${line}`);
console.log('check: all done');
