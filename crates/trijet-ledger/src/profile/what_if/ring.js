// The model of the run with chunks of another size or with another number of slots: upload, compute and
// download, each with a cost per chunk and per byte. The recurrences are those of `base/ring.rs`.

const CHUNKS_MAX = 1 << 20;

// The sizes of the chunks of a run of so many bytes.
function chunkSizes(all, bytes) {
  const sizes = new Float64Array(Math.ceil(all / bytes)).fill(bytes);
  if (all % bytes > 0) sizes[sizes.length - 1] = all % bytes;
  return sizes;
}

// The starts and the ends of the chunks on the three engines, and the time of the run.
function ringRun({ lines, gap }, sizes, depth) {
  const count = sizes.length, starts = [0, 1, 2].map(() => new Float64Array(count)), ends = [0, 1, 2].map(() => new Float64Array(count));
  const at = (engine, chunk) => chunk < 0 ? 0 : ends[engine][chunk];
  for (let k = 0; k < count; k++) {
    const [up, compute, down] = lines.map(([fixed, byte]) => fixed + gap + byte * sizes[k]);
    starts[0][k] = Math.max(at(0, k - 1), at(1, k - depth));
    ends[0][k] = starts[0][k] + up;
    starts[1][k] = Math.max(at(1, k - 1), ends[0][k], at(2, k - depth));
    ends[1][k] = starts[1][k] + compute;
    starts[2][k] = Math.max(at(2, k - 1), ends[1][k]);
    ends[2][k] = starts[2][k] + down;
  }
  return { starts, ends, time: at(2, count - 1) };
}

// The section of the page.
function showRing(ring) {
  const { all, usual } = ring, chunk = byId('ring-chunk'), depth = byId('ring-depth'), canvas = byId('ring-canvas');
  const measured = ringRun(ring, chunkSizes(all, usual), ring.depth);
  let changed = measured;
  byId('ring').hidden = false;
  function reset() {
    chunk.value = usual / 1024;
    depth.value = ring.depth;
  }
  function update() {
    const bytes = Math.round(Number(chunk.value) * 1024), slots = Number(depth.value);
    const count = Math.ceil(all / bytes);
    const isWrong = !(bytes >= 1) || !(count <= CHUNKS_MAX) || !Number.isInteger(slots) || slots < 1;
    chunk.setAttribute('aria-invalid', !(bytes >= 1) || !(count <= CHUNKS_MAX));
    depth.setAttribute('aria-invalid', !Number.isInteger(slots) || slots < 1);
    if (isWrong) {
      byId('ring-time').textContent = `A chunk has at least ${Math.ceil(all / CHUNKS_MAX)} bytes, and the run at least one slot.`;
      return;
    }
    changed = ringRun(ring, chunkSizes(all, bytes), slots);
    const same = bytes === usual && slots === ring.depth, gain = measured.time - changed.time;
    const chunks = `${count} ${count === 1 ? 'chunk' : 'chunks'} in ${slots} ${slots === 1 ? 'slot' : 'slots'}`;
    byId('ring-time').textContent = same ? `As measured, ${chunks}: the model takes ${duration(measured.time)}.`
      : `With ${chunks}: ${duration(changed.time)}, ${share(Math.abs(gain), measured.time)} ${gain >= 0 ? 'shorter' : 'longer'} than the model of the measured run.`;
    drawRing();
  }
  function drawRing() {
    const width = Math.max(320, canvas.parentElement.clientWidth), ratio = window.devicePixelRatio || 1, height = 3 * ROW;
    canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = `${height}px`;
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    context.font = FONT;
    const scale = (width - LABEL) / Math.max(1, measured.time, changed.time), paper = colour('--paper');
    ['upload', 'compute', 'download'].forEach((name, engine) => {
      [[measured, .45, 2], [changed, 1, 3 + STRIP]].forEach(([of, alpha, top]) => {
        context.globalAlpha = alpha;
        const fill = colour(['--k1', '--k0', '--k3'][engine]);
        const { starts, ends } = of, count = starts[engine].length;
        for (let k = 0, drawn = LABEL; k < count; k++) {
          const x0 = Math.max(drawn, LABEL + starts[engine][k] * scale), x1 = LABEL + ends[engine][k] * scale;
          if (x1 <= drawn) continue;
          drawn = Math.max(x0 + 1, x1);
          context.fillStyle = fill;
          context.fillRect(x0, engine * ROW + top, drawn - x0, STRIP);
          if (drawn - x0 > 3) { context.fillStyle = paper; context.fillRect(drawn - 1, engine * ROW + top, 1, STRIP); }
        }
      });
      context.globalAlpha = 1;
      context.fillStyle = colour('--ink');
      context.fillText(name, 4, engine * ROW + 18, LABEL - 10);
    });
  }
  const error = ring.modelled - ring.measured;
  byId('ring-error').textContent = `This is a model: each engine has a cost per chunk and per byte, and a chunk waits for a slot. `
    + `From the first upload to the last download the run took ${duration(ring.measured)}; the model of it takes ${duration(ring.modelled)}, `
    + `${share(Math.abs(error), ring.measured)} ${error < 0 ? 'less' : 'more'}. `
    + (ring.hasFixed ? '' : 'All chunks have nearly the same size, so the run does not show the cost of a chunk beside the cost of its bytes, and smaller chunks take longer than the model. ')
    + 'Other chunks are other calls, so their conflicts are not judged. The library orders the use of the slots for every size and depth.';
  for (const input of [chunk, depth]) input.addEventListener('input', update);
  byId('ring-reset').addEventListener('click', () => { reset(); update(); });
  window.addEventListener('resize', drawRing);
  reset();
  return { update, draw: drawRing, run: (bytes, slots) => ringRun(ring, chunkSizes(all, bytes), slots).time };
}
