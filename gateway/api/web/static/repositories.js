// The repositories page: follows runs, and refreshes the whole page when one is over.

import { fetchPart } from './page.js';

const overview = document.getElementById('overview');
/** Maximum number of followed runs: a browser opens six connections to a gateway, some for the user. */
const MOST_STREAMS = 3;
const REFRESH_MS = { live: 5000, quiet: 30000 };
let streams = [];
let timer = 0;

/** Show times in the reader's time zone. */
function localize() {
  for (const one of overview.querySelectorAll('time')) {
    const at = new Date(one.dateTime.replace(' ', 'T'));
    one.title = one.dateTime;
    one.textContent = at.toLocaleString([], { dateStyle: 'short', timeStyle: 'medium' });
  }
}

function show(row, run) {
  row.querySelector('.state').textContent = run.state;
  row.querySelector('.through').textContent = `${run.done + run.failed}/${run.total}`;
  row.querySelector('.failed').textContent = run.failed;
  const bar = row.querySelector('progress');
  if (bar && run.total) {
    bar.max = run.total;
    bar.value = Math.min(run.done + run.failed, run.total);
  }
}

function follow(row) {
  const stream = new EventSource(row.dataset.events);
  stream.addEventListener('run', (event) => show(row, JSON.parse(event.data)));
  stream.addEventListener('end', () => {
    stream.close();
    refresh();
  });
  // Otherwise the browser would keep requesting a run that it may no longer see.
  stream.addEventListener('error', () => stream.close());
  return stream;
}

function begin() {
  localize();
  for (const stream of streams) stream.close();
  const live = [...overview.querySelectorAll('[data-events]')];
  streams = live.slice(0, MOST_STREAMS).map(follow);
  clearTimeout(timer);
  timer = setTimeout(refresh, live.length ? REFRESH_MS.live : REFRESH_MS.quiet);
}

/** Refresh the state, unless the reader is using it. */
async function refresh() {
  clearTimeout(timer);
  const isInUse = overview.contains(document.activeElement) || !getSelection().isCollapsed;
  if (!document.hidden && !isInUse) overview.innerHTML = await fetchPart('/repositories');
  begin();
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) refresh();
});
addEventListener('pagehide', () => streams.forEach((stream) => stream.close()));

begin();
