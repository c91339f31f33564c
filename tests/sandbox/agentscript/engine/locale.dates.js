const dates = [0, 1709597109000, 1709640309000, 1735689599999, -86400000, 951782400000, 253402300799000, 1720006245000].map((ms) => new Date(ms));
const times = [{}, { hour: 'numeric' }, { hour: '2-digit' }, { hour: 'numeric', minute: '2-digit' }, { hour: '2-digit', minute: '2-digit' },
  { hour: 'numeric', minute: 'numeric', second: 'numeric' }, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false },
  { hour: 'numeric', minute: '2-digit', hour12: false }, { hour: 'numeric', hour12: false }, { hour: 'numeric', hourCycle: 'h23' },
  { minute: '2-digit', second: '2-digit' }, { minute: 'numeric' }, { second: '2-digit' }, { hour12: false }, { hour12: true },
  { hour: '2-digit', minute: '2-digit', hour12: true }];
const days = [];
for (const weekday of [undefined, 'short', 'long']) for (const year of [undefined, 'numeric', '2-digit'])
  for (const month of [undefined, 'numeric', '2-digit', 'short', 'long']) for (const day of [undefined, 'numeric', '2-digit']) {
    if (weekday && !month !== !day || !month && year && (day || weekday)) continue;
    if (weekday && !month && day) continue;
    days.push({ weekday, year, month, day });
  }
const styles = [{ dateStyle: 'short' }, { dateStyle: 'medium' }, { dateStyle: 'long' }, { dateStyle: 'full' }];
const out = [];
const say = (date, option) => {
  const all = { timeZone: 'UTC', ...option };
  out.push([option, date.toLocaleString('en-US', all)]);
  if (!option.dateStyle && !option.timeStyle) out.push([option, date.toLocaleDateString('en-US', all), date.toLocaleTimeString('en-US', all)]);
};
for (const date of dates) {
  for (const day of days) for (const time of times) say(date, { ...day, ...time });
  for (const style of styles) {
    out.push(date.toLocaleDateString(undefined, { timeZone: 'UTC', ...style }));
    for (const timeStyle of [undefined, 'short', 'medium']) { say(date, { ...style, timeStyle }); say(date, { ...style, timeStyle, hour12: false }); }
  }
  out.push(date.toLocaleTimeString([], { timeZone: 'UTC', timeStyle: 'short' }));
}
const here = new Date(2024, 2, 5, 15, 4);
return [...out, here.toLocaleString(), here.toLocaleDateString('default', { month: 'long' }), here.toLocaleTimeString('en-us'),
  new Date(NaN).toLocaleDateString()];
