'use strict';
(() => {
  const root = document.documentElement;
  const theme = document.getElementById('theme');
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const isDark = () => (root.dataset.theme || (dark.matches ? 'dark' : 'light')) === 'dark';
  const tell = () => theme.setAttribute('aria-pressed', String(isDark()));
  theme.hidden = false;
  theme.addEventListener('click', () => { root.dataset.theme = isDark() ? 'light' : 'dark'; tell(); });
  dark.addEventListener('change', tell);
  tell();

  for (const button of document.querySelectorAll('[data-fold]')) {
    button.hidden = false;
    button.addEventListener('click', () => {
      for (const call of document.querySelectorAll('.call > details')) call.open = button.dataset.fold === 'open';
    });
  }

  // A link to a call opens it.
  const follow = () => {
    const found = /^#call-\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (!found) return;
    const details = found.querySelector('details');
    details.open = true;
    details.querySelector('summary').focus();
  };
  addEventListener('hashchange', follow);
  follow();

  // The chart: one stop of the Tab key, arrows go from call to call, Enter opens one.
  const chart = document.getElementById('chart');
  if (!chart) return;
  const about = document.getElementById('about');
  const bars = [...chart.querySelectorAll('a[data-call]')];
  let at = -1;
  const choose = (next) => {
    if (bars[at]) bars[at].classList.remove('chosen');
    at = Math.max(0, Math.min(bars.length - 1, next));
    bars[at].classList.add('chosen');
    about.textContent = bars[at].querySelector('title').textContent;
  };
  if (!bars.length) return;
  chart.tabIndex = 0;
  about.textContent = 'Point at a call, or use the arrow keys.';
  chart.addEventListener('pointerover', (event) => {
    const bar = event.target.closest('a[data-call]');
    if (bar) choose(bars.indexOf(bar));
  });
  const moves = { ArrowRight: () => at + 1, ArrowDown: () => at + 1, ArrowLeft: () => at - 1, ArrowUp: () => at - 1, Home: () => 0, End: () => bars.length - 1 };
  chart.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && bars[at]) {
      const hash = bars[at].getAttribute('href');
      if (hash === location.hash) follow();
      else if (hash) location.hash = hash;
    } else if (Object.hasOwn(moves, event.key)) choose(moves[event.key]());
    else return;
    event.preventDefault();
  });
})();
