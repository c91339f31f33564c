const numbers = [0, -0, 1, -1, 9, 10, 999, 1000, 1234567.891, -1234.5, 0.5, 1.5, 2.5, 0.125, 1.005, 0.045, 99.995, 999.9995, 0.0004,
  0.0005, -0.0001, 1e21, 1.5e300, 5e-324, 1e-7, 123456789012345680000, 0.1 + 0.2, NaN, Infinity, -Infinity, 1.7976931348623157e308];
let seed = 7;
for (let i = 0; i < 300; i++) {
  seed = (seed * 16807) % 2147483647;
  numbers.push((seed % 2 ? 1 : -1) * seed / 10 ** (seed % 13));
}
const money = ['USD', 'EUR', 'GBP', 'JPY', 'CHF', 'KWD', 'usd', 'INR', 'XOF', 'ABC'];
const options = [undefined, {}, ...money.map((currency) => ({ style: 'currency', currency })),
  { style: 'currency', currency: 'USD', maximumFractionDigits: 0 }, { style: 'currency', currency: 'USD', minimumFractionDigits: 3 },
  { style: 'currency', currency: 'EUR', currencyDisplay: 'code' }, { style: 'currency', currency: 'JPY', minimumFractionDigits: 1 },
  { style: 'percent' }, { style: 'percent', maximumFractionDigits: 1 }, { style: 'percent', minimumFractionDigits: 2 },
  { useGrouping: false }, { useGrouping: true }, { minimumIntegerDigits: 2 }, { minimumIntegerDigits: 7 },
  ...[0, 1, 2, 5, 20].flatMap((d) => [{ maximumFractionDigits: d }, { minimumFractionDigits: d },
    { minimumFractionDigits: d, maximumFractionDigits: d }])];
const out = [];
for (const number of numbers) for (const option of options) out.push([number, option, number.toLocaleString('en-US', option)]);
for (const big of [0n, -5n, 1234n, 10n ** 40n, -(10n ** 30n)]) out.push([0, '' + big, big.toLocaleString(), big.toLocaleString('en', { style: 'percent' })]);
return [...out, [1234.5, 10000n, 'a', null].toLocaleString()];
