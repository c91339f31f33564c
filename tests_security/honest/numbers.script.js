// Numbers, money, statistics, dates, BigInt.
--- sum and average
const amounts = [12.5, 7.25, 30.25];
const sum = amounts.reduce((a, b) => a + b, 0);
return { sum, average: Math.round((sum / amounts.length) * 100) / 100 };
//= {"sum": 50, "average": 16.67}
--- median and mode
const xs = [5, 3, 8, 3, 9];
const sorted = xs.toSorted((a, b) => a - b);
const mid = Math.floor(sorted.length / 2);
const median = sorted.length % 2 ? sorted[mid] : (sorted[mid - 1] + sorted[mid]) / 2;
const counts = xs.reduce((m, x) => m.set(x, (m.get(x) ?? 0) + 1), new Map());
const mode = [...counts].sort((a, b) => b[1] - a[1])[0][0];
return { median, mode };
//= {"median": 5, "mode": 3}
--- variance and standard deviation
const xs = [2, 4, 4, 4, 5, 5, 7, 9];
const mean = xs.reduce((s, x) => s + x, 0) / xs.length;
const variance = xs.reduce((s, x) => s + (x - mean) ** 2, 0) / xs.length;
return { mean, variance, deviation: Math.sqrt(variance) };
//= {"mean": 5, "variance": 4, "deviation": 2}
--- percentile
const percentile = (list, p) => {
  const s = [...list].sort((a, b) => a - b);
  const rank = (p / 100) * (s.length - 1);
  const low = Math.floor(rank);
  return s[low] + (s[Math.min(low + 1, s.length - 1)] - s[low]) * (rank - low);
};
return [percentile([1, 2, 3, 4], 50), percentile([10, 20, 30], 90)];
//= [2.5, 28]
--- linear regression
const points = [[1, 2], [2, 4], [3, 6]];
const n = points.length;
const [sx, sy, sxy, sxx] = points.reduce(([a, b, c, d], [x, y]) => [a + x, b + y, c + x * y, d + x * x], [0, 0, 0, 0]);
const slope = (n * sxy - sx * sy) / (n * sxx - sx ** 2);
return { slope, intercept: (sy - slope * sx) / n };
//= {"slope": 2, "intercept": 0}
--- moving average
const series = [1, 2, 3, 4, 5];
const window = 3;
return series.slice(window - 1).map((_, i) => series.slice(i, i + window).reduce((a, b) => a + b) / window);
//= [2, 3, 4]
--- cumulative sum
let running = 0;
return [1, 2, 3].map((x) => (running += x));
//= [1, 3, 6]
--- min and max by spread
const xs = [3, -1, 7];
return { min: Math.min(...xs), max: Math.max(...xs), range: Math.max(...xs) - Math.min(...xs) };
//= {"min": -1, "max": 7, "range": 8}
--- rounding to cents
const round = (x, d = 2) => Number(`${Math.round(Number(`${x}e${d}`))}e-${d}`);
return [round(1.005), round(2.345, 1), round(10)];
//= [1.01, 2.3, 10]
--- money in BigInt
const prices = ['19.99', '0.01', '1000000000000.50'];
const toCents = (s) => { const [w, f = '0'] = s.split('.'); return BigInt(w) * 100n + BigInt(f.padEnd(2, '0')); };
const total = prices.map(toCents).reduce((a, b) => a + b, 0n);
return { cents: total, text: `${total / 100n}.${String(total % 100n).padStart(2, '0')}` };
//= {"cents": "100000000002050", "text": "1000000000020.50"}
--- BigInt arithmetic
const f = (n) => (n <= 1n ? 1n : n * f(n - 1n));
return { fact: f(25n), pow: 2n ** 80n, neg: -7n / 2n, cmp: 2n > 1, mix: Number(3n) + 1, type: typeof 1n, u: BigInt.asUintN(8, 257n) };
//= {"fact": "15511210043330985984000000", "pow": "1208925819614629174706176", "neg": "-3", "cmp": true, "mix": 4, "type": "bigint", "u": "1"}
--- fibonacci with memo
const memo = new Map([[0, 0], [1, 1]]);
const fib = (n) => {
  if (!memo.has(n)) memo.set(n, fib(n - 1) + fib(n - 2));
  return memo.get(n);
};
return fib(50);
//= 12586269025
--- primes by sieve
const limit = 50;
const sieve = Array(limit + 1).fill(true);
for (let i = 2; i * i <= limit; i++) {
  if (!sieve[i]) continue;
  for (let j = i * i; j <= limit; j += i) sieve[j] = false;
}
return sieve.map((p, i) => (p && i > 1 ? i : 0)).filter(Boolean);
//= [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]
--- gcd and lcm
const gcd = (a, b) => (b === 0 ? a : gcd(b, a % b));
return [gcd(48, 18), (48 * 18) / gcd(48, 18), [12, 18, 24].reduce(gcd)];
//= [6, 144, 6]
--- number parsing
return [parseInt('42px', 10), parseFloat('3.14abc'), Number('0x1f'), Number(''), +'7', parseInt('z', 36), Number.parseFloat('1e3'), Number('1_0') || 0];
//= [42, 3.14, 31, 0, 7, 35, 1000, 0]
--- number checks
return [Number.isInteger(5.0), Number.isNaN(NaN), isNaN('x'), isFinite(1 / 0), Number.isSafeInteger(2 ** 53), Number.EPSILON > 0, 0.1 + 0.2 === 0.3];
//= [true, true, true, false, false, true, false]
--- not numbers in the result
return { nan: NaN, inf: Infinity, ninf: -Infinity, zero: -0, undef: undefined, ok: 1 };
//= {"nan": null, "inf": null, "ninf": null, "zero": 0, "ok": 1}
--- bases and bits
return [(255).toString(16), (5).toString(2).padStart(8, '0'), parseInt('ff', 16), 0b101, 0o17, 1_000_000, 5 & 3, 5 | 3, 5 ^ 3, ~5, 1 << 4, -8 >>> 28, -8 >> 1];
//= ["ff", "00000101", 255, 5, 15, 1000000, 1, 7, 6, -6, 16, 15, -4]
--- Math galore
return [Math.abs(-3), Math.ceil(1.2), Math.floor(-1.2), Math.trunc(-1.7), Math.sign(-4), Math.hypot(3, 4), Math.log10(1000), Math.log2(8), Math.clz32(1), Math.PI.toFixed(4)];
//= [3, 2, -2, -1, -1, 5, 3, 3, 31, "3.1416"]
--- exponent and precision
return [(1234.5678).toFixed(1), (0.000001234).toExponential(2), (1234.5678).toPrecision(6), 2 ** 10, (-2) ** 3, 7 % 3, -7 % 3];
//= ["1234.6", "1.23e-6", "1234.57", 1024, -8, 1, -1]
--- compound interest table
const rows = [];
let balance = 1000;
for (let year = 1; year <= 3; year++) {
  balance *= 1.05;
  rows.push({ year, balance: +balance.toFixed(2) });
}
return rows;
//= [{"year": 1, "balance": 1050}, {"year": 2, "balance": 1102.5}, {"year": 3, "balance": 1157.63}]
--- histogram buckets
const ages = [3, 17, 22, 29, 35, 41, 68];
const buckets = {};
for (const age of ages) {
  const low = Math.floor(age / 20) * 20;
  const label = `${low}-${low + 19}`;
  buckets[label] = (buckets[label] ?? 0) + 1;
}
return buckets;
//= {"0-19": 2, "20-39": 3, "40-59": 1, "60-79": 1}
--- deterministic random numbers
let seed = 42;
const random = () => { seed = (seed * 1664525 + 1013904223) % 4294967296; return seed / 4294967296; };
return Array.from({ length: 3 }, () => Math.floor(random() * 100));
//= [25, 8, 57]
--- chance from the clock's side
const r = Math.random();
return r >= 0 && r < 1;
//= true
--- now is a number
const started = Date.now();
const later = new Date();
return typeof started === 'number' && later.getTime() >= started;
//= true
--- date parsing and ISO
const d = new Date('2024-02-29T12:30:00Z');
return { iso: d.toISOString(), day: d.getUTCDay(), time: d.getTime(), date: d.toISOString().slice(0, 10) };
//= {"iso": "2024-02-29T12:30:00.000Z", "day": 4, "time": 1709209800000, "date": "2024-02-29"}
--- days between
const day = 24 * 60 * 60 * 1000;
const between = (a, b) => Math.round((Date.parse(b) - Date.parse(a)) / day);
return [between('2024-02-28', '2024-03-01'), between('2023-02-28', '2023-03-01')];
//= [2, 1]
--- add days and months in UTC
const d = new Date(Date.UTC(2024, 0, 31));
d.setUTCDate(d.getUTCDate() + 30);
const e = new Date(Date.UTC(2024, 0, 15));
e.setUTCMonth(e.getUTCMonth() + 13);
return [d.toISOString().slice(0, 10), e.toISOString().slice(0, 10)];
//= ["2024-03-01", "2025-02-15"]
--- start of the week
const d = new Date('2024-05-16T00:00:00Z');
const monday = new Date(d.getTime() - ((d.getUTCDay() + 6) % 7) * 86400000);
return monday.toISOString();
//= "2024-05-13T00:00:00.000Z"
--- quarter of a date
const quarter = (iso) => `${iso.slice(0, 4)}-Q${Math.ceil(Number(iso.slice(5, 7)) / 3)}`;
return ['2024-01-31', '2024-06-30', '2024-12-01'].map(quarter);
//= ["2024-Q1", "2024-Q2", "2024-Q4"]
--- dates in the result
return { at: new Date(0), list: [new Date(86400000)], bad: new Date('nonsense') };
//= {"at": "1970-01-01T00:00:00.000Z", "list": ["1970-01-02T00:00:00.000Z"], "bad": null}
--- invalid dates
const d = new Date('not a date');
return Number.isNaN(d.getTime()) ? 'invalid' : 'valid';
//= "invalid"
--- sort by date
const events = [{ n: 'b', at: '2024-03-01' }, { n: 'a', at: '2023-12-24' }];
return events.toSorted((x, y) => new Date(x.at) - new Date(y.at)).map((e) => e.n);
//= ["a", "b"]
--- format a duration
const format = (ms) => {
  const s = Math.floor(ms / 1000);
  const [h, m, sec] = [Math.floor(s / 3600), Math.floor((s % 3600) / 60), s % 60];
  return `${h}h ${String(m).padStart(2, '0')}m ${String(sec).padStart(2, '0')}s`;
};
return format(3723000);
//= "1h 02m 03s"
--- relative time from a given now
const now = Date.parse('2024-01-02T00:00:00Z');
const ago = (iso) => { const h = Math.floor((now - Date.parse(iso)) / 3600000); return h < 24 ? `${h} hours ago` : `${Math.floor(h / 24)} days ago`; };
return [ago('2024-01-01T20:00:00Z'), ago('2023-12-25T00:00:00Z')];
//= ["4 hours ago", "8 days ago"]
--- leap years
const isLeap = (y) => (y % 4 === 0 && y % 100 !== 0) || y % 400 === 0;
return [1900, 2000, 2023, 2024].filter(isLeap);
//= [2000, 2024]
--- currency conversion table
const rates = { USD: 1.1, GBP: 0.85 };
return Object.entries(rates).map(([code, rate]) => ({ code, amount: (100 * rate).toFixed(2) }));
//= [{"code": "USD", "amount": "110.00"}, {"code": "GBP", "amount": "85.00"}]
--- weighted score
const criteria = [{ w: 0.5, v: 8 }, { w: 0.3, v: 6 }, { w: 0.2, v: 10 }];
return +criteria.reduce((s, { w, v }) => s + w * v, 0).toFixed(3);
//= 7.8
--- binary search
const xs = [1, 3, 5, 7, 9, 11];
let lo = 0, hi = xs.length - 1, found = -1;
for (let i = 0; i < 64 && lo <= hi; i++) {
  const mid = (lo + hi) >> 1;
  if (xs[mid] === 9) { found = mid; break; }
  if (xs[mid] < 9) lo = mid + 1; else hi = mid - 1;
}
return found;
//= 4
--- quick sort
const quick = (xs) => {
  if (xs.length < 2) return xs;
  const [pivot, ...rest] = xs;
  return [...quick(rest.filter((x) => x < pivot)), pivot, ...quick(rest.filter((x) => x >= pivot))];
};
return quick([5, 2, 8, 1, 9, 3]);
//= [1, 2, 3, 5, 8, 9]
--- permutations
const permute = (xs) => (xs.length <= 1 ? [xs] : xs.flatMap((x, i) => permute([...xs.slice(0, i), ...xs.slice(i + 1)]).map((p) => [x, ...p])));
return permute(['a', 'b', 'c']).map((p) => p.join(''));
//= ["abc", "acb", "bac", "bca", "cab", "cba"]
--- knapsack
const items = [{ w: 1, v: 1 }, { w: 3, v: 4 }, { w: 4, v: 5 }, { w: 5, v: 7 }];
const best = Array(8).fill(0);
for (const { w, v } of items) for (let c = 7; c >= w; c--) best[c] = Math.max(best[c], best[c - w] + v);
return best[7];
//= 9
--- haversine
const rad = (d) => (d * Math.PI) / 180;
const km = (a, b) => {
  const h = Math.sin(rad(b[0] - a[0]) / 2) ** 2 + Math.cos(rad(a[0])) * Math.cos(rad(b[0])) * Math.sin(rad(b[1] - a[1]) / 2) ** 2;
  return 2 * 6371 * Math.asin(Math.sqrt(h));
};
return Math.round(km([52.52, 13.405], [48.8566, 2.3522]));
//= 877
