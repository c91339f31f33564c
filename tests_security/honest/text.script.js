// Text: formatting, CSV, Markdown, templates, regular expressions, escaping, Unicode.
--- markdown table
const { users } = await callTool('users:list', {});
const header = '| Name | Role |\n| --- | --- |';
const body = users.map((u) => `| ${u.name} | ${u.role} |`).join('\n');
return `${header}\n${body}`;
//= "| Name | Role |\n| --- | --- |\n| Ada | owner |\n| Ben | member |\n| Cleo | member |"
--- markdown report with sections
const sections = { Summary: ['3 users', '1 owner'], 'Next steps': ['Invite more'] };
const lines = ['# Report', ''];
for (const [title, items] of Object.entries(sections)) {
  lines.push(`## ${title}`, ...items.map((item) => `- ${item}`), '');
}
return lines.join('\n').trim();
//= "# Report\n\n## Summary\n- 3 users\n- 1 owner\n\n## Next steps\n- Invite more"
--- markdown with a fenced code block
const code = ['```python', 'import os', 'print(os.environ)', '```'].join('\n');
return `Run this:\n\n${code}\n`;
//= "Run this:\n\n```python\nimport os\nprint(os.environ)\n```\n"
--- markdown checklist and links
const tasks = [{ t: 'Deploy', done: true, url: 'https://example.com/a?b=1#c' }, { t: 'Test', done: false }];
return tasks.map(({ t, done, url }) => `- [${done ? 'x' : ' '}] ${url ? `[${t}](${url})` : t}`).join('\n');
//= "- [x] [Deploy](https://example.com/a?b=1#c)\n- [ ] Test"
--- csv with quoting
const rows = [['id', 'note'], [1, 'plain'], [2, 'with, comma'], [3, 'say "hi"']];
const cell = (v) => (/[",\n]/.test(String(v)) ? `"${String(v).replace(/"/g, '""')}"` : String(v));
return rows.map((r) => r.map(cell).join(',')).join('\n');
//= "id,note\n1,plain\n2,\"with, comma\"\n3,\"say \"\"hi\"\"\""
--- csv parsing with quotes
const csv = 'name,city\n"Doe, Jane","New York"\nBob,Paris';
function parseLine(line) {
  const cells = [];
  let current = '';
  let quoted = false;
  for (const ch of line) {
    if (ch === '"') quoted = !quoted;
    else if (ch === ',' && !quoted) { cells.push(current); current = ''; }
    else current += ch;
  }
  cells.push(current);
  return cells;
}
const [head, ...rest] = csv.split('\n').map(parseLine);
return rest.map((r) => Object.fromEntries(r.map((v, i) => [head[i], v])));
//= [{"name": "Doe, Jane", "city": "New York"}, {"name": "Bob", "city": "Paris"}]
--- template literal over several lines
const name = 'Ada';
const total = 12.5;
return `Dear ${name},

your total is ${total.toFixed(2)} EUR.
${total > 10 ? 'Shipping is free.' : ''}`;
//= "Dear Ada,\n\nyour total is 12.50 EUR.\nShipping is free."
--- nested templates
const items = ['a', 'b'];
return `<ul>${items.map((item, i) => `<li id="${`item-${i}`}">${item}</li>`).join('')}</ul>`;
//= "<ul><li id=\"item-0\">a</li><li id=\"item-1\">b</li></ul>"
--- tagged template
const highlight = (strings, ...values) => strings.reduce((out, s, i) => out + s + (i < values.length ? `**${values[i]}**` : ''), '');
const user = 'Ada'; const n = 3;
return highlight`User ${user} has ${n} tasks`;
//= "User **Ada** has **3** tasks"
--- String.raw
return String.raw`C:\temp\${1 + 1}\n`;
//= "C:\\temp\\${1 + 1}\\n"
--- escape html
const escapeHtml = (s) => s.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
return escapeHtml('<script>alert("x & y")</script>');
//= "&lt;script&gt;alert(&quot;x &amp; y&quot;)&lt;/script&gt;"
--- slug
const slugify = (s) => s.toLowerCase().normalize('NFKD').replace(/[\u0300-\u036f]/g, '').replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '');
return slugify('  Crème Brûlée & Café!  ');
//= "creme-brulee-cafe"
--- title case and camel case
const title = (s) => s.split(' ').map((w) => w.charAt(0).toUpperCase() + w.slice(1).toLowerCase()).join(' ');
const camel = (s) => s.replace(/[-_ ](\w)/g, (_, c) => c.toUpperCase());
const snake = (s) => s.replace(/([a-z])([A-Z])/g, '$1_$2').toLowerCase();
return [title('the qUICK fox'), camel('user_first-name'), snake('userFirstName')];
//= ["The Quick Fox", "userFirstName", "user_first_name"]
--- extract e-mail addresses
const text = 'Write to ann@example.com or bob.b+x@mail.example.org, not to @nobody.';
return text.match(/[\w.+-]+@[\w-]+\.[\w.-]*\w/g) ?? [];
//= ["ann@example.com", "bob.b+x@mail.example.org"]
--- named groups
const line = '2024-03-05 ERROR payment failed (order 4711)';
const m = line.match(/^(?<date>\d{4}-\d{2}-\d{2}) (?<level>[A-Z]+) (?<message>.+?) \(order (?<order>\d+)\)$/);
const { date, level, message, order } = m.groups;
return { date, level, message, order: Number(order) };
//= {"date": "2024-03-05", "level": "ERROR", "message": "payment failed", "order": 4711}
--- matchAll
const text = 'a=1; b=22; c=333';
return [...text.matchAll(/(\w)=(\d+)/g)].map(([, key, value]) => ({ key, value: +value }));
//= [{"key": "a", "value": 1}, {"key": "b", "value": 22}, {"key": "c", "value": 333}]
--- exec loop with a bound
const re = /\b(\w)(\w*)\b/g;
const text = 'to be or';
const out = [];
for (let i = 0; i < 100; i++) {
  const m = re.exec(text);
  if (m === null) break;
  out.push(m[2] + m[1]);
}
return out;
//= ["ot", "eb", "ro"]
--- replace with a function
const template = 'Hello {{ name }}, you owe {{amount}} {{ currency }}';
const values = { name: 'Ada', amount: 5 };
return template.replace(/\{\{\s*(\w+)\s*\}\}/g, (whole, key) => (key in values ? String(values[key]) : whole));
//= "Hello Ada, you owe 5 {{ currency }}"
--- RegExp from a string
const escapeRegExp = (s) => s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
const needle = 'a.b(c)';
const re = new RegExp(escapeRegExp(needle), 'gi');
return 'x A.B(C) y a.b(c)'.match(re).length;
//= 2
--- regex test, search, split, sticky
const s = 'one, two;three';
return { test: /two/.test(s), search: s.search(/t/), split: s.split(/[,;]\s*/), flags: /a/giu.flags };
//= {"test": true, "search": 5, "split": ["one", "two", "three"], "flags": "giu"}
--- lookahead and lookbehind
return {
  price: '$42 and 7€'.match(/(?<=\$)\d+/)[0],
  thousands: '1234567'.replace(/\B(?=(\d{3})+(?!\d))/g, ','),
  unicode: 'Grüße 世界'.match(/\p{L}+/gu),
};
//= {"price": "42", "thousands": "1,234,567", "unicode": ["Grüße", "世界"]}
--- parse a query string
const url = 'https://example.com/search?q=hello%20world&page=2&empty=';
const query = url.split('?')[1] ?? '';
return Object.fromEntries(query.split('&').map((p) => p.split('=').map(decodeURIComponent)));
//= {"q": "hello world", "page": "2", "empty": ""}
--- build a query string
const params = { q: 'a&b=c', page: 2, tag: 'ä' };
return Object.entries(params).map(([k, v]) => `${encodeURIComponent(k)}=${encodeURIComponent(v)}`).join('&');
//= "q=a%26b%3Dc&page=2&tag=%C3%A4"
--- encodeURI and decodeURI
return [encodeURI('https://example.com/ä b?x=1&y=2'), decodeURI('%C3%A4'), decodeURIComponent('a%2Fb')];
//= ["https://example.com/%C3%A4%20b?x=1&y=2", "ä", "a/b"]
--- parse key value lines
const ini = 'host = example.com\n# comment\nport=8080\n\nname = a = b';
const config = {};
for (const raw of ini.split('\n')) {
  const line = raw.trim();
  if (!line || line.startsWith('#')) continue;
  const at = line.indexOf('=');
  config[line.slice(0, at).trim()] = line.slice(at + 1).trim();
}
return config;
//= {"host": "example.com", "port": "8080", "name": "a = b"}
--- pad and align
const rows = [['apples', 3], ['kiwis', 12]];
return rows.map(([n, q]) => `${n.padEnd(8, '.')}${String(q).padStart(4)}`).join('\n');
//= "apples..   3\nkiwis...  12"
--- truncate with an ellipsis
const truncate = (s, n) => (s.length <= n ? s : `${s.slice(0, n - 1).trimEnd()}…`);
return [truncate('short', 10), truncate('a long sentence here', 8)];
//= ["short", "a long…"]
--- word wrap
const wrap = (text, width) => {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines[lines.length - 1];
    if ((line + ' ' + word).trim().length <= width) lines[lines.length - 1] = (line + ' ' + word).trim();
    else lines.push(word);
  }
  return lines;
};
return wrap('the quick brown fox jumps', 10);
//= ["the quick", "brown fox", "jumps"]
--- plural
const plural = (n, word, many = word + 's') => `${n} ${n === 1 ? word : many}`;
return [plural(1, 'user'), plural(3, 'user'), plural(2, 'city', 'cities')];
//= ["1 user", "3 users", "2 cities"]
--- number formatting without Intl
const money = (cents) => {
  const sign = cents < 0 ? '-' : '';
  const [whole, fraction] = (Math.abs(cents) / 100).toFixed(2).split('.');
  let grouped = '';
  for (let i = 0; i < whole.length; i++) {
    if (i > 0 && (whole.length - i) % 3 === 0) grouped += ',';
    grouped += whole[i];
  }
  return `${sign}€${grouped}.${fraction}`;
};
return [money(123456789), money(-5), money(100000)];
//= ["€1,234,567.89", "-€0.05", "€1,000.00"]
--- bytes in words
const human = (bytes) => {
  const units = ['B', 'KB', 'MB', 'GB'];
  let i = 0;
  for (; bytes >= 1024 && i < units.length - 1; i++) bytes /= 1024;
  return `${bytes.toFixed(i ? 1 : 0)} ${units[i]}`;
};
return [human(12), human(2048), human(5.5 * 1024 * 1024)];
//= ["12 B", "2.0 KB", "5.5 MB"]
--- palindromes and reversal by code point
const reverse = (s) => [...s].reverse().join('');
const isPalindrome = (s) => { const t = s.toLowerCase().split('').filter((c) => c >= 'a' && c <= 'z').join(''); return t === reverse(t); };
return [reverse('añb😀'), isPalindrome('A man, a plan, a canal: Panama')];
//= ["😀bña", true]
--- caesar cipher with char codes
const shift = (s, n) => [...s].map((c) => {
  const code = c.charCodeAt(0);
  if (code >= 97 && code <= 122) return String.fromCharCode(((code - 97 + n) % 26) + 97);
  return c;
}).join('');
return [shift('hello world', 3), shift(shift('abc', 5), 21)];
//= ["khoor zruog", "abc"]
--- code points
return { at: 'é'.codePointAt(0), from: String.fromCodePoint(128512), length: '😀'.length, spread: [...'a😀'].length, norm: 'e\u0301'.normalize('NFC').length };
//= {"at": 233, "from": "😀", "length": 2, "spread": 2, "norm": 1}
--- base 64 by hand
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const encode = (s) => {
  let out = '';
  for (let i = 0; i < s.length; i += 3) {
    const [a, b, c] = [0, 1, 2].map((k) => (i + k < s.length ? s.charCodeAt(i + k) : 0));
    const n = (a << 16) | (b << 8) | c;
    out += alphabet[n >> 18] + alphabet[(n >> 12) & 63] + (i + 1 < s.length ? alphabet[(n >> 6) & 63] : '=') + (i + 2 < s.length ? alphabet[n & 63] : '=');
  }
  return out;
};
return encode('Hello!!');
//= "SGVsbG8hIQ=="
--- simple hash
let hash = 5381;
for (const ch of 'codecall') hash = ((hash << 5) + hash + ch.charCodeAt(0)) >>> 0;
return hash.toString(16);
//= "2a4872fc"
--- levenshtein
function distance(a, b) {
  const d = Array.from({ length: a.length + 1 }, (_, i) => [i, ...Array(b.length).fill(0)]);
  for (let j = 0; j <= b.length; j++) d[0][j] = j;
  for (let i = 1; i <= a.length; i++) {
    for (let j = 1; j <= b.length; j++) {
      d[i][j] = Math.min(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
  }
  return d[a.length][b.length];
}
return [distance('kitten', 'sitting'), distance('', 'abc')];
//= [3, 3]
--- natural sort
const files = ['file10', 'file2', 'file1'];
const key = (s) => s.replace(/\d+/g, (n) => n.padStart(8, '0'));
return files.toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
//= ["file1", "file2", "file10"]
--- JSON round trip with indentation
const o = { b: [1, null, true], a: 'x' };
const json = JSON.stringify(o, null, 2);
return { lines: json.split('\n').length, same: JSON.stringify(JSON.parse(json)) === JSON.stringify(o) };
//= {"lines": 8, "same": true}
--- JSON with replacer and reviver
const text = JSON.stringify({ keep: 1, drop: 2, d: new Date(0) }, (k, v) => (k === 'drop' ? undefined : v));
const back = JSON.parse(text, (k, v) => (k === 'd' ? new Date(v).getTime() : v));
return { text, back };
//= {"text": "{\"keep\":1,\"d\":\"1970-01-01T00:00:00.000Z\"}", "back": {"keep": 1, "d": 0}}
--- safe JSON parse
const tryParse = (s) => { try { return { ok: true, value: JSON.parse(s) }; } catch (e) { return { ok: false, name: e.name }; } };
return [tryParse('{"a":1}'), tryParse('{oops}')];
//= [{"ok": true, "value": {"a": 1}}, {"ok": false, "name": "SyntaxError"}]
--- JSON inside a markdown answer
const answer = 'Here you go:\n```json\n{"items": [1, 2]}\n```\nBye';
const start = answer.indexOf('{');
const end = answer.lastIndexOf('}');
return JSON.parse(answer.slice(start, end + 1)).items;
//= [1, 2]
--- xml by hand
const el = (name, attrs, ...kids) => `<${name}${Object.entries(attrs).map(([k, v]) => ` ${k}="${v}"`).join('')}>${kids.join('')}</${name}>`;
return el('user', { id: 1 }, el('name', {}, 'Ada'), '<!-- note -->');
//= "<user id=\"1\"><name>Ada</name><!-- note --></user>"
--- localeCompare and case
return [['b', 'a', 'C'].sort((x, y) => x.toLowerCase() < y.toLowerCase() ? -1 : 1), 'ß'.toUpperCase(), 'İ'.length, 'abc'.at(-1)];
//= [["a", "b", "C"], "SS", 1, "c"]
--- string methods galore
const s = '  Hello, World  ';
return {
  trim: s.trim(), start: s.trimStart().length, end: s.trimEnd().length, idx: s.indexOf('World'), inc: s.includes('lo,'),
  sw: s.trim().startsWith('Hell'), ew: s.trim().endsWith('ld'), rep: 'ab'.repeat(3), sub: s.substring(2, 7), sl: s.slice(-4, -2),
  ra: 'a-b-c'.replaceAll('-', '+'), cat: 'a'.concat('b', 1), lo: 'ABC'.toLowerCase(), code: 'A'.charCodeAt(0), last: 'abcabc'.lastIndexOf('b'),
};
//= {"trim": "Hello, World", "start": 14, "end": 14, "idx": 9, "inc": true, "sw": true, "ew": true, "rep": "ababab", "sub": "Hello", "sl": "ld", "ra": "a+b+c", "cat": "ab1", "lo": "abc", "code": 65, "last": 4}
--- label alignment with max
const data = { short: 1, 'much longer': 22 };
const width = Math.max(...Object.keys(data).map((k) => k.length));
return Object.entries(data).map(([k, v]) => k.padEnd(width) + ' : ' + v);
//= ["short       : 1", "much longer : 22"]
--- ascii bar chart
const values = { mon: 2, tue: 5, wed: 1 };
return Object.entries(values).map(([d, n]) => `${d} ${'█'.repeat(n)}${'░'.repeat(5 - n)}`).join('\n');
//= "mon ██░░░\ntue █████\nwed █░░░░"
--- interpolation of undefined and null
return `${undefined} ${null} ${[1, [2, 3]]} ${true}`;
//= "undefined null 1,2,3 true"
--- emoji and right to left text in strings
return ['👩‍👩‍👧', 'שלום', 'مرحبا', 'ไทย'].map((s) => [...s].length);
//= [5, 4, 5, 3]
--- unicode escapes in strings
return ['\u0041', '\x42', '\u{1F600}', '\u200b'.length, 'a\tb\\n', '\'"`'];
//= ["A", "B", "😀", 1, "a\tb\\n", "'\"`"]
