// What every page does: keyboard shortcuts, dialogs, and requests that are repeated while the gateway
// is unreachable.

const PART = 'x-codelode-part';
const RETRY_MS = [500, 1000, 2000, 4000];

document.documentElement.classList.add('has-script');

/** Return whether a key belongs to what is focused, as in a text field. */
function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Move the focus among the results: `a.open` elements that are not folded. */
function move(step) {
  const results = [...document.querySelectorAll('main a.open')].filter((one) => one.checkVisibility());
  if (!results.length) return;
  const now = document.activeElement?.closest('.hit')?.querySelector('a.open') ?? document.activeElement;
  const at = results.indexOf(now);
  const next = at < 0 ? (step > 0 ? 0 : results.length - 1) : Math.min(Math.max(at + step, 0), results.length - 1);
  results[next].focus({ preventScroll: true });
  results[next].closest('.hit, li')?.scrollIntoView({ block: 'center' });
}

const shortcuts = new Map([
  ['/', () => document.getElementById('q')?.select()],
  ['j', () => move(1)],
  ['k', () => move(-1)],
  ['?', () => open('help')],
]);

/** Let a page add a shortcut, which its block `keys` describes in the help. */
export function addShortcut(key, action) {
  shortcuts.set(key, action);
}

function open(id) {
  const dialog = document.getElementById(id);
  if (!dialog.open) dialog.showModal();
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (isTyping(event.target)) {
    if (event.key === 'Escape') {
      event.preventDefault(); // a search field would be emptied
      event.target.blur();
    }
    return;
  }
  const action = shortcuts.get(event.key);
  if (action) {
    event.preventDefault();
    action();
  }
});

document.addEventListener('click', (event) => {
  const opener = event.target.closest?.('[data-opens]');
  if (opener) open(opener.dataset.opens);
});

const away = document.getElementById('away');

/**
 * Fetch a part of a page as HTML that the server has escaped. While the gateway does not answer, try
 * again and show a message. Resolves to the text of the answer, even of a problem; rejects if aborted.
 */
export async function fetchPart(url, signal) {
  for (let attempt = 0; ; attempt += 1) {
    const response = await fetch(url, { signal, headers: { [PART]: '1' } }).catch((error) => {
      if (signal?.aborted) throw error;
      return null;
    });
    if (response?.status === 401) {
      location.assign(`/sign-in?ended=1&next=${encodeURIComponent(location.pathname + location.search)}`);
      return new Promise(() => {});
    }
    if (response && response.status < 502) {
      away.hidden = true;
      return response.text();
    }
    away.hidden = false;
    await pause(RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)], signal);
  }
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
