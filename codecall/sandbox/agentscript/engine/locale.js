// Locale methods for en-US (numbers, dates, sorting): the engine has no locales, and would silently ignore grouping, options
// and alphabetical order. An option or locale that is not supported throws.
//
// Evaluated before a script that names one of these methods, after the prelude has built the realm: the prelude passes in
// what it captured, and calls the functions this returns.
// Each option of the script is read once; the script's own code runs only where one of its values is converted to text.
(function (builtIns) {
  'use strict';
  const { apply, uncurry, toText, slice, lower, checkLimits, normalize, nativeList } = builtIns;
  const GlobalRangeError = RangeError, GlobalTypeError = TypeError;
  const isArray = Array.isArray;
  const indexOf = uncurry(String.prototype.indexOf), repeat = uncurry(String.prototype.repeat);
  const upper = uncurry(String.prototype.toUpperCase), lowerCase = uncurry(String.prototype.toLowerCase);
  const padStart = uncurry(String.prototype.padStart), codeAt = uncurry(String.prototype.charCodeAt);
  const numberOf = uncurry(Number.prototype.valueOf), bigintOf = uncurry(BigInt.prototype.valueOf);
  const isInteger = Number.isInteger, letterOf = String.fromCharCode;
  const prototype = Date.prototype;
  const dateTime = uncurry(prototype.getTime);
  const LOCAL = [prototype.getFullYear, prototype.getMonth, prototype.getDate, prototype.getDay,
    prototype.getHours, prototype.getMinutes, prototype.getSeconds];
  const UTC = [prototype.getUTCFullYear, prototype.getUTCMonth, prototype.getUTCDate, prototype.getUTCDay,
    prototype.getUTCHours, prototype.getUTCMinutes, prototype.getUTCSeconds];

  // ---- locales and options --------------------------------------------------------------------------------------
  const shown = (value) => typeof value === 'string' ? `'${slice(value, 0, 40)}'`
    : typeof value === 'number' || typeof value === 'boolean' || value === null ? toText(value) : `of type ${typeof value}`;
  function throwUnknown(what, value, allowed, use = '') {
    throw new GlobalRangeError(`AgentScript knows no ${what} ${shown(value)}${use}${allowed === undefined ? '' : `, only ${allowed}`}`);
  }
  function requireEnglish(locales, use = '') {
    const locale = isArray(locales) ? locales[0] : locales;
    if (locale === undefined || locale === 'en-US' || locale === 'en' || locale === 'default') return;
    const folded = typeof locale === 'string' && locale.length < 10 ? lower(locale) : '';
    if (folded !== 'en-us' && folded !== 'en') throwUnknown('locale', locale, "'en-US'", use);
  }
  // `allowed` has the values of each option, separated by blanks; null: any value, the caller checks it.
  function readOptions(options, allowed, unsupported) {
    const out = { __proto__: null };
    if (options === undefined) return out;
    if (options === null || typeof options !== 'object') throwUnknown('options', options, 'an object');
    for (const key in allowed) {
      const value = options[key];
      if (value === undefined) continue;
      const words = allowed[key];
      if (words !== null && !(typeof value === 'string' && indexOf(value, ' ') < 0 && indexOf(` ${words} `, ` ${value} `) >= 0)) {
        throwUnknown(`\`${key}\``, value, words === '' ? undefined : `'${words}'`);
      }
      out[key] = value;
    }
    for (let index = 0; index < unsupported.length; index++) {
      const value = options[unsupported[index]];
      if (value !== undefined) throwUnknown(`\`${unsupported[index]}\``, value);
    }
    return out;
  }

  // ---- numbers --------------------------------------------------------------------------------------------------
  const NUMBER = { __proto__: null, style: 'decimal percent currency', currency: null, currencyDisplay: 'symbol code',
    currencySign: 'standard', notation: 'standard', signDisplay: 'auto', numberingSystem: 'latn', useGrouping: null,
    minimumIntegerDigits: null, minimumFractionDigits: null, maximumFractionDigits: null };
  const UNSUPPORTED_NUMBER = ['unit', 'minimumSignificantDigits', 'maximumSignificantDigits', 'roundingMode', 'roundingPriority',
    'roundingIncrement', 'trailingZeroDisplay'];
  const SYMBOLS = { __proto__: null, AUD: 'A$', BRL: 'R$', CAD: 'CA$', CNY: 'CN¥', EUR: '€', GBP: '£', HKD: 'HK$', ILS: '₪', INR: '₹',
    JPY: '¥', KRW: '₩', MXN: 'MX$', NZD: 'NZ$', PHP: '₱', TWD: 'NT$', USD: '$', VND: '₫', XAF: 'FCFA\xa0', XCD: 'EC$', XCG: 'Cg\xa0',
    XOF: 'F\u202fCFA\xa0', XPF: 'CFPF\xa0' };
  const NO_MINOR_UNITS = ' AFN ALL BIF CLP COP DJF GNF HUF IDR IQD IRR ISK JPY KMF KPW KRW LAK LBP MGA MMK PKR PYG RWF SLL SOS SYP UGX ' +
    'VND VUV XAF XOF XPF YER ';
  const THREE_MINOR_DIGITS = ' BHD JOD KWD LYD OMR TND ';
  const GROUPING = ['auto', 'always', true];

  function digitsOption(settings, key, least, most) {
    const value = settings[key];
    if (value !== undefined && !(isInteger(value) && value >= least && value <= most)) throwUnknown(`\`${key}\``, value, `${least} to ${most}`);
    return value;
  }
  function currencyOf(settings) {
    const code = settings.currency;
    if (typeof code !== 'string' || code.length !== 3) throwUnknown('`currency`', code, "a code such as 'USD'");
    const plain = upper(code);
    for (let index = 0; index < 3; index++) if (plain[index] < 'A' || plain[index] > 'Z') throwUnknown('`currency`', code, "a code such as 'USD'");
    return plain;
  }
  // `text` is a number without its sign, as the engine writes it: '12.5', '1e-7', '1.5e+300'.
  function decimal(text, shift, most, least) {
    const power = indexOf(text, 'e');
    const mantissa = power < 0 ? text : slice(text, 0, power);
    const dot = indexOf(mantissa, '.');
    let digits = dot < 0 ? mantissa : slice(mantissa, 0, dot) + slice(mantissa, dot + 1);
    let point = (dot < 0 ? mantissa.length : dot) + (power < 0 ? 0 : +slice(text, power + 1)) + shift;
    const keep = point + most;
    if (keep < 0) { digits = ''; point = 0; }
    else if (keep < digits.length) {
      let end = keep;
      const up = digits[keep] >= '5';
      if (up) while (end > 0 && digits[end - 1] === '9') end--;
      const rest = repeat('0', keep - end);
      if (!up) digits = slice(digits, 0, keep);
      else if (end === 0) { digits = `1${rest}`; point++; }
      else digits = slice(digits, 0, end - 1) + (+digits[end - 1] + 1) + rest;
    }
    let whole = point <= 0 ? '' : point > digits.length ? digits + repeat('0', point - digits.length) : slice(digits, 0, point);
    let fraction = point < 0 ? repeat('0', -point) + digits : slice(digits, point);
    let start = 0;
    while (start < whole.length && whole[start] === '0') start++;
    whole = slice(whole, start);
    let end = fraction.length;
    while (end > least && fraction[end - 1] === '0') end--;
    fraction = slice(fraction, 0, end);
    if (fraction.length < least) fraction += repeat('0', least - fraction.length);
    return [whole === '' ? '0' : whole, fraction];
  }
  function grouped(whole) {
    let out = slice(whole, 0, whole.length % 3 || 3);
    for (let index = out.length, turn = 0; index < whole.length; index += 3) {
      if ((++turn & 1023) === 0) checkLimits();
      out += `,${slice(whole, index, index + 3)}`;
    }
    return out;
  }
  function numberText(value, locales, options) {
    requireEnglish(locales);
    const settings = readOptions(options, NUMBER, UNSUPPORTED_NUMBER);
    const style = settings.style || 'decimal';
    let before = '', after = '', mostUsual = 3, leastUsual = 0;
    if (style === 'percent') { after = '%'; mostUsual = 0; }
    if (style === 'currency') {
      const code = currencyOf(settings);
      before = settings.currencyDisplay !== 'code' && SYMBOLS[code] || `${code}\xa0`;
      mostUsual = leastUsual = indexOf(NO_MINOR_UNITS, ` ${code} `) >= 0 ? 0 : indexOf(THREE_MINOR_DIGITS, ` ${code} `) >= 0 ? 3 : 2;
    }
    let least = digitsOption(settings, 'minimumFractionDigits', 0, 100), most = digitsOption(settings, 'maximumFractionDigits', 0, 100);
    const whole = digitsOption(settings, 'minimumIntegerDigits', 1, 21);
    if (least === undefined) least = most === undefined || leastUsual < most ? leastUsual : most;
    if (most === undefined) most = least > mostUsual ? least : mostUsual;
    if (least > most) throwUnknown('`maximumFractionDigits`', most, `${least} and more`);
    const grouping = settings.useGrouping;
    if (!(grouping === undefined || grouping === false || grouping === GROUPING[0] || grouping === GROUPING[1] || grouping === GROUPING[2])) {
      throwUnknown('`useGrouping`', grouping, 'true or false');
    }
    if ((value !== value || value === Infinity || value === -Infinity) && before[before.length - 1] === '\xa0') before = slice(before, 0, -1);
    if (value !== value) return `${before}NaN${after}`;
    const signedText = toText(value);
    const negative = signedText[0] === '-' || value === 0 && 1 / value < 0;
    const text = signedText[0] === '-' ? slice(signedText, 1) : signedText;
    let body = '∞';
    if (text !== 'Infinity') {
      const [integer, fraction] = decimal(text, style === 'percent' ? 2 : 0, most, least);
      const padded = whole === undefined ? integer : padStart(integer, whole, '0');
      body = (grouping === false ? padded : grouped(padded)) + (fraction === '' ? '' : `.${fraction}`);
    }
    return `${negative ? '-' : ''}${before}${body}${after}`;
  }

  // ---- dates ----------------------------------------------------------------------------------------------------
  const TWO = 'numeric 2-digit';
  const DATE = { __proto__: null, weekday: 'short long', year: TWO, month: 'numeric 2-digit short long', day: TWO, hour: TWO,
    minute: TWO, second: TWO, hour12: null, hourCycle: 'h12 h23', timeZone: null, dateStyle: 'short medium long full',
    timeStyle: 'short medium', calendar: 'gregory', numberingSystem: 'latn' };
  const UNSUPPORTED_DATE = ['era', 'dayPeriod', 'fractionalSecondDigits', 'timeZoneName'];
  const ZONES = ' utc gmt etc/utc etc/gmt ';
  const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
  const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
  const STYLES = { __proto__: null, short: { month: 'numeric', day: 'numeric', year: '2-digit' },
    medium: { month: 'short', day: 'numeric', year: 'numeric' }, long: { month: 'long', day: 'numeric', year: 'numeric' },
    full: { month: 'long', day: 'numeric', year: 'numeric', weekday: 'long' } };

  const twoDigits = (number) => number < 10 ? `0${number}` : `${number}`;
  const sizedNumber = (number, size) => size === '2-digit' ? twoDigits(number % 100) : `${number}`;
  function throwCombination(what) {
    throw new GlobalRangeError(`AgentScript knows no text for these parts of a ${what} together`);
  }
  function dateText(wanted, [year, month, day, weekday]) {
    const named = wanted.weekday === 'long' ? DAYS[weekday] : wanted.weekday === 'short' ? slice(DAYS[weekday], 0, 3) : '';
    const { year: y, month: m, day: d } = wanted;
    if (named !== '' && (m === undefined) !== (d === undefined) || m === undefined && y !== undefined && (d !== undefined || named !== '')) {
      throwCombination('date');
    }
    const years = y === undefined ? '' : sizedNumber(year, y), days = d === undefined ? '' : sizedNumber(day, d);
    let text = years + days;
    if (m === 'numeric' || m === '2-digit') {
      text = sizedNumber(month + 1, m) + (days && `/${days}`) + (years && `/${years}`);
    } else if (m !== undefined) {
      text = (m === 'long' ? MONTHS[month] : slice(MONTHS[month], 0, 3)) + (days && ` ${days}`) + (years && `${days && ','} ${years}`);
    }
    return named + (named && text && ', ') + text;
  }
  function timeText({ hour, minute, second }, twelve, [, , , , hours, minutes, seconds]) {
    if (hour === undefined) {
      if (minute !== undefined && second !== undefined) return `${twoDigits(minutes)}:${twoDigits(seconds)}`;
      return minute !== undefined ? `${minutes}` : `${seconds}`;
    }
    if (minute === undefined && second !== undefined) throwCombination('time');
    const shownHours = twelve ? sizedNumber(hours % 12 || 12, hour) : twoDigits(hours);
    return shownHours + (minute && `:${twoDigits(minutes)}` || '') + (second && `:${twoDigits(seconds)}` || '') +
      (twelve ? hours < 12 ? ' AM' : ' PM' : '');
  }
  // `methodKind` is what the method gives when the options name no parts: 'date', 'time' or 'any' for both.
  function whenText(date, methodKind, locales, options) {
    const time = dateTime(date);
    requireEnglish(locales, ' for dates');
    const settings = readOptions(options, DATE, UNSUPPORTED_DATE);
    const zone = settings.timeZone;
    if (zone !== undefined && !(typeof zone === 'string' && zone.length < 10 && indexOf(ZONES, ` ${lower(zone)} `) >= 0)) throwUnknown('`timeZone`', zone, "'UTC'");
    const { hour12, dateStyle, timeStyle } = settings;
    if (hour12 !== undefined && typeof hour12 !== 'boolean') throwUnknown('`hour12`', hour12, 'true or false');
    const twelve = hour12 === undefined ? settings.hourCycle !== 'h23' : hour12;
    const datePart = settings.weekday || settings.year || settings.month || settings.day;
    const timePart = settings.hour || settings.minute || settings.second;
    let wanted = settings;
    if (dateStyle !== undefined || timeStyle !== undefined) {
      if (datePart || timePart || dateStyle && methodKind === 'time' || timeStyle && methodKind === 'date') {
        throw new GlobalTypeError('dateStyle and timeStyle stand alone, and fit the method: write toLocaleString for both');
      }
      wanted = dateStyle === undefined ? { __proto__: null } : { __proto__: null, ...STYLES[dateStyle] };
      if (timeStyle !== undefined) { wanted.hour = wanted.minute = 'numeric'; if (timeStyle === 'medium') wanted.second = 'numeric'; }
    } else if (!(methodKind !== 'time' && datePart || methodKind !== 'date' && timePart)) {
      if (methodKind !== 'time') wanted.year = wanted.month = wanted.day = 'numeric';
      if (methodKind !== 'date') wanted.hour = wanted.minute = wanted.second = 'numeric';
    }
    if (time !== time) return 'Invalid Date';
    const methods = zone === undefined ? LOCAL : UTC;
    const fields = [];
    for (let index = 0; index < 7; index++) fields[index] = apply(methods[index], date, []);
    if (fields[0] < 1) throwUnknown('text for the year', fields[0]);
    const days = dateText(wanted, fields);
    if (!(wanted.hour || wanted.minute || wanted.second)) return days;
    const clock = timeText(wanted, twelve, fields);
    const alone = wanted.year || wanted.month || wanted.day;
    return days === '' ? clock : days + (!alone && wanted.hour && (twelve || wanted.minute) ? ' ' : wanted.month === 'long' ? ' at ' : ', ') + clock;
  }

  // ---- alphabetical order ---------------------------------------------------------------------------------------
  const COMPARE = { __proto__: null, sensitivity: 'base accent case variant', numeric: null, usage: 'sort', caseFirst: 'false lower',
    ignorePunctuation: null, collation: 'default' };
  const SIGNS = '\t\n\v\f\r\x85\u2028\u2029 _-‐‒–—―,;:!¡?¿.…·\'‹›"«»()[]{}§¶@*/\u2044\\&#%‰†‡•`´^¯¨¸°©®←→↑↓+±÷×<=>¬|¦~−≤≥✓¤¢$£¥€';
  const LETTERS = 'abcdefghiıjklmnŋopqĸrstŧuvwxyzþ';
  const MARKS = '\u0332\u0313\u0314\u0301\u0300\u0306\u0302\u030c\u030a\u0308\u030b\u0303\u0307\u0338\u0327\u0328\u0304\u030d';
  // Characters that sort as others do, with how far behind them where all else is equal; capitals are 1 behind.
  const EQUIVALENTS = { __proto__: null, '\u2009': [' ', 2], '\u202f': [' ', 3], '\xa0': [' ', 3], '\u3000': [' ', 1], '‑': ['‐', 3],
    '‘': ['\'\u0332', 0], '’': ['\'\u0313', 0], '‚': ['\'\u0314', 0], '“': ['"\u0332', 0], '”': ['"\u0313', 0], '„': ['"\u0314', 0],
    'ª': ['a', 3], 'º': ['o', 3], '¹': ['1', 3], '²': ['2', 3], '³': ['3', 3], '½': ['1\u20442', 3], '¼': ['1\u20444', 3], '¾': ['3\u20444', 3],
    'ĳ': ['ij', 2], 'Ĳ': ['IJ', 2], 'ß': ['s\u0336s', 0], 'ẞ': ['S\u0336S', 0], 'ſ': ['s\u0336', 0], 'µ': ['μ', 2],
    'æ': ['a\u0336e', 0], 'Æ': ['A\u0336E', 0], 'œ': ['o\u0336e', 0], 'Œ': ['O\u0336E', 0], '™': ['TM', 3], 'ŀ': ['l\u0336', 0], 'Ŀ': ['L\u0336', 0],
    'đ': ['d\u0335', 0], 'Đ': ['D\u0335', 0], 'ð': ['d\u0336', 0], 'Ð': ['D\u0336', 0], 'ħ': ['h\u0335', 0], 'Ħ': ['H\u0335', 0],
    'ł': ['l\u0335', 0], 'Ł': ['L\u0335', 0], 'ø': ['o\u0338', 0], 'Ø': ['O\u0338', 0] };
  // A sort key is a text compared character by character: places in the alphabet, then accents and capitals where there are
  // any, each after a character that sorts before all others.
  const SIGN = 10, ELSEWHERE = '\u0200', DIGIT = 0x210, LETTER = 0x220, BEYOND = '\u0260';
  const PLACES = { __proto__: null }, CAPITALS = { __proto__: null };
  for (let index = 0; index < SIGNS.length; index++) PLACES[SIGNS[index]] = letterOf(SIGN + index);
  for (let index = 0; index < 10; index++) PLACES[`${index}`] = letterOf(DIGIT + index);
  for (let index = 0; index < LETTERS.length; index++) {
    const capital = upper(LETTERS[index]);
    PLACES[LETTERS[index]] = letterOf(LETTER + index);
    if (PLACES[capital] !== undefined || capital.length > 1) continue;
    PLACES[capital] = letterOf(LETTER + index);
    CAPITALS[capital] = true;
  }
  const isIgnored = (code) => code < 32 || code >= 127 && code < 160 || code === 0xad || code >= 0x200b && code < 0x2010 || code === 0xfeff;

  function keysOf(text, numeric) {
    let places = '', accents = '', capitals = '', accented = false, varied = false;
    const clean = normalize(text);
    let from = clean, at = 0, back = -1, behind = 0, turn = 0;
    while (at < from.length || back >= 0) {
      if ((++turn & 1023) === 0) checkLimits();
      if (at >= from.length) { from = clean; at = back; back = -1; behind = 0; continue; }
      const letter = from[at++];
      let place = PLACES[letter], capital = CAPITALS[letter] ? 1 : 0;
      if (place === undefined) {
        const like = back < 0 ? EQUIVALENTS[letter] : undefined;
        if (like !== undefined) { from = like[0]; behind = like[1]; back = at; at = 0; continue; }
        const code = codeAt(letter, 0);
        if (isIgnored(code)) continue;
        if (code >= 0x300 && code < 0x370) {
          const rank = indexOf(MARKS, letter);
          accents += rank < 0 ? letter : letterOf(rank + 3);
          accented = true;
          continue;
        }
        const small = lowerCase(letter);
        const sign = code >= 0x2000 && code < 0x2c00 || code >= 0xd83c && code <= 0xd83e;
        place = sign ? ELSEWHERE + letter : BEYOND + small[0];
        capital = small === letter ? 0 : 1;
      } else if (numeric && back < 0 && letter >= '0' && letter <= '9') {
        // A run of digits: its length without zeros, then the digits.
        let start = at - 1;
        while (clean[start] === '0') start++;
        at = start;
        while (clean[at] >= '0' && clean[at] <= '9') if ((++at & 1023) === 0) checkLimits();
        const length = at - start;
        place = letterOf(DIGIT) + letterOf(length >>> 16) + letterOf(length & 0xffff) + slice(clean, start, at);
      }
      places += place;
      accents += '\x02';
      capital += behind;
      if (capital > 0) varied = true;
      capitals += letterOf(2 + capital);
    }
    return { __proto__: null, places, accents: accented ? accents : '', capitals: varied ? capitals : '',
      all: accented || varied ? `${places}\x01${accented ? accents : ''}\x01${varied ? capitals : ''}` : places };
  }
  // Sorting asks for the same texts again and again.
  const MAX_CACHED_CHARS = 500000, MAX_CACHED_LENGTH = 200;
  const cache = [{ __proto__: null }, { __proto__: null }];
  let cacheRoom = MAX_CACHED_CHARS;
  function keyOf(text, numeric) {
    const which = numeric ? 1 : 0;
    let keys = cache[which][text];
    if (keys !== undefined) return keys;
    keys = keysOf(text, numeric);
    cacheRoom -= text.length + 20;
    if (cacheRoom < 0) { cache[0] = { __proto__: null }; cache[1] = { __proto__: null }; cacheRoom = MAX_CACHED_CHARS; }
    cache[which][text] = keys;
    return keys;
  }
  const order = (left, right) => left === right ? 0 : left < right ? -1 : 1;
  function compare(left, right, locales, options) {
    if (locales !== undefined) requireEnglish(locales);
    let sensitivity = 'variant', numeric = false;
    if (options !== undefined) {
      const settings = readOptions(options, COMPARE, []);
      if (settings.sensitivity !== undefined) sensitivity = settings.sensitivity;
      if (settings.numeric !== undefined) {
        if (typeof settings.numeric !== 'boolean') throwUnknown('`numeric`', settings.numeric, 'true or false');
        numeric = settings.numeric;
      }
      if (settings.ignorePunctuation !== undefined && settings.ignorePunctuation !== false) throwUnknown('`ignorePunctuation`', settings.ignorePunctuation, 'false');
    }
    if (left === right) return 0;
    const a = left.length > MAX_CACHED_LENGTH ? keysOf(left, numeric) : keyOf(left, numeric);
    const b = right.length > MAX_CACHED_LENGTH ? keysOf(right, numeric) : keyOf(right, numeric);
    if (sensitivity === 'variant') return order(a.all, b.all);
    return order(a.places, b.places) || (sensitivity === 'accent' ? order(a.accents, b.accents) : sensitivity === 'case' ? order(a.capitals, b.capitals) : 0);
  }

  // ---- upper and lower case --------------------------------------------------------------------------------------
  function requireCommonCasing(locales) {
    const locale = isArray(locales) ? locales[0] : locales;
    if (locale === undefined) return;
    if (typeof locale !== 'string') throwUnknown('locale', locale);
    const language = lower(slice(locale, 0, 3));
    const bare = language.length < 3 || language[2] === '-' ? slice(language, 0, 2) : language;
    if (bare === 'tr' || bare === 'az' || bare === 'lt') throwUnknown('capitals of the locale', locale);
  }

  return {
    __proto__: null,
    Number: { toLocaleString(locales, options) { return numberText(numberOf(this), locales, options); } },
    BigInt: { toLocaleString(locales, options) { return numberText(bigintOf(this), locales, options); } },
    Date: {
      toLocaleDateString(locales, options) { return whenText(this, 'date', locales, options); },
      toLocaleTimeString(locales, options) { return whenText(this, 'time', locales, options); },
      toLocaleString(locales, options) { return whenText(this, 'any', locales, options); },
    },
    String: {
      localeCompare(other, locales, options) { return compare(toText(this), toText(other), locales, options); },
      toLocaleUpperCase(locales) { requireCommonCasing(locales); return upper(toText(this)); },
      toLocaleLowerCase(locales) { requireCommonCasing(locales); return lowerCase(toText(this)); },
    },
    Array: {
      toLocaleString(locales, options) {
        requireEnglish(locales);
        if (options !== undefined) throw new GlobalRangeError('AgentScript knows no options for the items of a list: map them');
        return apply(nativeList, this, []);
      },
    },
  };
})
