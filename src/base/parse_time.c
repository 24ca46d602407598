/* The dates of parse.h: RFC 3339 and the three forms of HTTP.
 *
 * A text is read by a cursor that stops working at the first fault: after it every step does nothing, so a reader is
 * a plain list of what must come and one question at the end. Nothing here uses the C library's calendar, which
 * depends on the time zone; days are counted by shifting the year to begin in March, which puts the leap day at its
 * end (the proleptic Gregorian calendar, exact for all years from 0 on). */
#include "base/clock.h"
#include "base/parse.h"
#include <string.h>

#define DAY_S 86400
#define YEAR_MIN 1970
#define YEAR_MAX 9999

struct cursor {
    const char *at;
    const char *end;
    bool is_bad;
};

struct civil {
    int year;
    int month; /* 1..12 */
    int day;   /* 1..31 */
    int hour;
    int minute;
    int second; /* 60 is a leap second */
};

static char take_char(struct cursor *c)
{
    if (c->is_bad || c->at == c->end) {
        c->is_bad = true;
        return '\0';
    }
    return *c->at++;
}

/* The next characters must be `text`. */
static void expect(struct cursor *c, const char *text)
{
    size_t n = strlen(text);

    if (c->is_bad || (size_t)(c->end - c->at) < n || memcmp(c->at, text, n) != 0) {
        c->is_bad = true;
        return;
    }
    c->at += n;
}

/* Exactly `digits` digits. */
static int take_number(struct cursor *c, int digits)
{
    int value = 0;

    for (int i = 0; i < digits; i++) {
        char digit = take_char(c);

        if (digit < '0' || digit > '9') {
            c->is_bad = true;
            return 0;
        }
        value = value * 10 + (digit - '0');
    }
    return value;
}

static void take_clock(struct cursor *c, struct civil *t)
{
    t->hour = take_number(c, 2);
    expect(c, ":");
    t->minute = take_number(c, 2);
    expect(c, ":");
    t->second = take_number(c, 2);
}

static int month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month == 2 && is_leap ? 29 : days[month - 1];
}

static bool civil_is_valid(const struct civil *t)
{
    return t->month >= 1 && t->month <= 12 && t->day >= 1 && t->day <= month_days(t->year, t->month) && t->hour <= 23 &&
           t->minute <= 59 && t->second <= 60;
}

/* Days from 1970-01-01 to a date. */
static int64_t days_from_civil(int year, int month, int day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t from_march = (month + 9) % 12;
    int64_t day_of_year = (153 * from_march + 2) / 5 + day - 1;

    return y * 365 + y / 4 - y / 100 + y / 400 + day_of_year - 719468;
}

static int64_t civil_to_unix_s(const struct civil *t)
{
    return days_from_civil(t->year, t->month, t->day) * DAY_S + (int64_t)t->hour * 3600 + (int64_t)t->minute * 60 +
           t->second;
}

/* The inverse, for times from 1970 on. */
static void civil_from_unix_s(int64_t unix_s, struct civil *t)
{
    int64_t days = unix_s / DAY_S + 719468;
    int64_t second = unix_s % DAY_S;
    int64_t era = days / 146097; /* 400 years */
    int64_t day_of_era = days % 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t from_march = (5 * day_of_year + 2) / 153;

    t->day = (int)(day_of_year - (153 * from_march + 2) / 5 + 1);
    t->month = (int)(from_march < 10 ? from_march + 3 : from_march - 9);
    t->year = (int)(era * 400 + year_of_era + (t->month <= 2 ? 1 : 0));
    t->hour = (int)(second / 3600);
    t->minute = (int)(second / 60 % 60);
    t->second = (int)(second % 60);
}

/* One to nine digits after the point, rounded up to milliseconds (0..1000). */
static int take_fraction_ms(struct cursor *c)
{
    int64_t ns = 0;
    int digits = 0;

    for (; digits < 9 && c->at < c->end && *c->at >= '0' && *c->at <= '9'; digits++)
        ns = ns * 10 + take_number(c, 1);
    if (digits == 0)
        c->is_bad = true;
    for (; digits < 9; digits++)
        ns *= 10;
    return (int)((ns + 999999) / 1000000);
}

/* "Z" or "+hh:mm"; in seconds to subtract. */
static int take_offset_s(struct cursor *c)
{
    char sign = take_char(c);
    int hour = 0;
    int minute = 0;

    if (sign == 'Z' || sign == 'z')
        return 0;
    hour = take_number(c, 2);
    expect(c, ":");
    minute = take_number(c, 2);
    if ((sign != '+' && sign != '-') || hour > 23 || minute > 59)
        c->is_bad = true;
    return (sign == '-' ? -1 : 1) * (hour * 3600 + minute * 60);
}

/* `unix_s` is where 23:59:60 ends up when counted on: midnight after the last day of June or December, or wrong. */
static bool is_leap_second(int64_t unix_s)
{
    struct civil next = {0};

    if (unix_s < 0 || unix_s % DAY_S != 0)
        return false;
    civil_from_unix_s(unix_s, &next);
    return next.day == 1 && (next.month == 1 || next.month == 7);
}

bool parse_rfc3339(const char *s, size_t n, int64_t *out_ms)
{
    const struct civil last = {YEAR_MAX, 12, 31, 23, 59, 59};
    struct cursor c = {s, s + n, false};
    struct civil t = {0};
    int fraction_ms = 0;
    int64_t unix_s = 0;
    int64_t unix_ms = 0;
    char separator = 0;

    t.year = take_number(&c, 4);
    expect(&c, "-");
    t.month = take_number(&c, 2);
    expect(&c, "-");
    t.day = take_number(&c, 2);
    separator = take_char(&c);
    take_clock(&c, &t);
    if (!c.is_bad && c.at < c.end && *c.at == '.') {
        c.at++;
        fraction_ms = take_fraction_ms(&c);
    }
    unix_s = -(int64_t)take_offset_s(&c);
    if (c.is_bad || c.at != c.end || (separator != 'T' && separator != 't') || !civil_is_valid(&t) || t.year < YEAR_MIN)
        return false;
    unix_s += civil_to_unix_s(&t);
    if (t.second == 60 && !is_leap_second(unix_s))
        return false;
    unix_ms = unix_s * 1000 + fraction_ms;
    if (unix_ms < 0 || unix_ms > civil_to_unix_s(&last) * 1000 + 999)
        return false;
    *out_ms = unix_ms;
    return true;
}

/* 1..12. */
static int take_month(struct cursor *c)
{
    static const char names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

    for (int i = 0; i < 12; i++) {
        if (!c->is_bad && c->end - c->at >= 3 && memcmp(c->at, names[i], 3) == 0) {
            c->at += 3;
            return i + 1;
        }
    }
    c->is_bad = true;
    return 0;
}

/* "06 Nov 1994 08:49:37 GMT" */
static void take_imf_fixdate(struct cursor *c, struct civil *t)
{
    t->day = take_number(c, 2);
    expect(c, " ");
    t->month = take_month(c);
    expect(c, " ");
    t->year = take_number(c, 4);
    expect(c, " ");
    take_clock(c, t);
    expect(c, " GMT");
}

/* "06-Nov-94 08:49:37 GMT": the last such year that is not more than 50 years ahead. */
static void take_rfc850(struct cursor *c, struct civil *t)
{
    struct civil now = {0};

    t->day = take_number(c, 2);
    expect(c, "-");
    t->month = take_month(c);
    expect(c, "-");
    t->year = take_number(c, 2);
    expect(c, " ");
    take_clock(c, t);
    expect(c, " GMT");
    civil_from_unix_s(clock_wall_ms() / 1000, &now);
    t->year = now.year + 50 - (now.year + 50 - t->year) % 100;
}

/* "Nov  6 08:49:37 1994" */
static void take_asctime(struct cursor *c, struct civil *t)
{
    t->month = take_month(c);
    expect(c, " ");
    if (c->at < c->end && *c->at == ' ') {
        c->at++;
        t->day = take_number(c, 1);
    } else {
        t->day = take_number(c, 2);
    }
    expect(c, " ");
    take_clock(c, t);
    expect(c, " ");
    t->year = take_number(c, 4);
}

/* The weekday's name and what follows it decide the form. */
static void take_http_date(struct cursor *c, struct civil *t)
{
    static const char *const days[] = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};

    for (size_t i = 0; i < sizeof(days) / sizeof(days[0]); i++) {
        size_t left = (size_t)(c->end - c->at);
        size_t full = strlen(days[i]);

        if (left > full + 2 && memcmp(c->at, days[i], full) == 0 && memcmp(c->at + full, ", ", 2) == 0) {
            c->at += full + 2;
            take_rfc850(c, t);
            return;
        }
        if (left > 5 && memcmp(c->at, days[i], 3) == 0) {
            bool is_fixdate = memcmp(c->at + 3, ", ", 2) == 0;

            c->at += 3;
            expect(c, is_fixdate ? ", " : " ");
            if (is_fixdate)
                take_imf_fixdate(c, t);
            else
                take_asctime(c, t);
            return;
        }
    }
    c->is_bad = true;
}

bool parse_http_date(const char *s, size_t n, int64_t *out_s)
{
    struct cursor c = {s, s + n, false};
    struct civil t = {0};

    take_http_date(&c, &t);
    if (c.is_bad || c.at != c.end || !civil_is_valid(&t))
        return false;
    *out_s = civil_to_unix_s(&t);
    return true;
}

/* `count` digits, leading zeros included. */
static char *put_digits(char *at, int value, int count)
{
    for (int i = count - 1; i >= 0; i--, value /= 10)
        at[i] = (char)('0' + value % 10);
    return at + count;
}

static char *put_part(char *at, int value, int count, char after)
{
    at = put_digits(at, value, count);
    *at = after;
    return at + 1;
}

/* By hand: three of these are in every answer, and snprintf takes longer for one than the rest of the answer. */
void parse_format_rfc3339(int64_t ms, char out[PARSE_RFC3339_SIZE])
{
    const struct civil last = {YEAR_MAX, 12, 31, 23, 59, 59};
    int64_t last_ms = civil_to_unix_s(&last) * 1000 + 999;
    int64_t clamped_ms = ms < 0 ? 0 : ms > last_ms ? last_ms : ms;
    struct civil t = {0};
    char *at = out;

    civil_from_unix_s(clamped_ms / 1000, &t);
    at = put_part(at, t.year, 4, '-');
    at = put_part(at, t.month, 2, '-');
    at = put_part(at, t.day, 2, 'T');
    at = put_part(at, t.hour, 2, ':');
    at = put_part(at, t.minute, 2, ':');
    at = put_part(at, t.second, 2, '.');
    at = put_part(at, (int)(clamped_ms % 1000), 3, 'Z');
    *at = '\0';
}
