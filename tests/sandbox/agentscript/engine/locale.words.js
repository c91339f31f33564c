const letters = [];
for (let i = 9; i < 0x180; i++) letters.push(String.fromCharCode(i));
for (const one of '‐‑‒–—―‘’‚“”„†‡•…‰‹›€™→−≤≥≠✓\u202f\u2009\u3000\u200b\ufeff') letters.push(one);
const words = ['', 'a', 'A', 'b', 'B', 'ab', 'aB', 'Ab', 'AB', 'áb', 'Áb', 'abc', 'résumé', 'resume', 'Resume', 'résume', 'resumé', 'cote', 'côte',
  'coté', 'côté', 'straße', 'strasse', 'Strasse', 'strassf', 'Øre', 'ore', 'orf', 'Łódź', 'Lodz', 'æon', 'aeon', 'af', 'az', 'file2', 'file10', 'file010', 'File 2',
  'file-2', 'file_2', 'file.2', '1', '2', '10', '01', '1.5', '1a', 'item 1 b 2', 'item 1 b 10', 'co-op', 'coop', 'co op', "o'neil", 'oneil', 'ONeil',
  'a\u0301', 'a\u0301\u0323', 'a\u0323\u0301', 'ﬁ'.normalize('NFKC'), 'Ünal', 'Unal', 'unal', 'ünal', 'zebra', 'Zebra', '#1', '$5', '10%', 'ñandu', 'nandu', 'nz', 'Ελλάδα', 'Москва', 'москва', 'a\u0000b'];
const signs = [];
const kinds = [undefined, { sensitivity: 'base' }, { sensitivity: 'accent' }, { sensitivity: 'case' }, { numeric: true }, { numeric: true, sensitivity: 'base' }];
for (const kind of kinds) for (const a of words) for (const b of words) signs.push([a, b, kind, Math.sign(a.localeCompare(b, 'en', kind))]);
for (const kind of kinds.slice(0, 2)) for (const a of letters) for (const b of letters) signs.push([a, b, kind, Math.sign(a.localeCompare(b, 'en', kind))]);
