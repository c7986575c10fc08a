/*
 * time_text.c - RFC 3339 out and in.
 *
 * Own arithmetic instead of gmtime_r and strftime: maps and streams write a time
 * per seat, and libc's functions take the time zone's lock for each.
 * The calendar is the proleptic Gregorian one, counted in eras of 400 years that
 * begin on March 1, so that the leap day is the last of its year.
 */
#include <string.h>

#include "base_internal.h"
#include "holdfast/clock.h"

#define DAYS_PER_ERA       146097
#define DAYS_TO_UNIX_EPOCH 719468 /* from 0000-03-01 to 1970-01-01 */
#define SECONDS_PER_DAY    86400
#define TIME_US_MIN        (-62167219200LL * TIME_US_PER_S)     /* 0000-01-01 */
#define TIME_US_MAX        (253402300800LL * TIME_US_PER_S - 1) /* the end of 9999 */

struct date {
    int year, month, day;
};

static int64_t
floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static struct date
date_from_days(int64_t unix_days)
{
    int64_t days = unix_days + DAYS_TO_UNIX_EPOCH;
    int64_t era = floor_div(days, DAYS_PER_ERA);
    int day_of_era = (int)(days - era * DAYS_PER_ERA);
    int year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int month_from_march = (5 * day_of_year + 2) / 153;
    int month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;

    return (struct date){ .year = (int)(era * 400) + year_of_era + (month <= 2),
                          .month = month,
                          .day = day_of_year - (153 * month_from_march + 2) / 5 + 1 };
}

static int64_t
days_from_date(struct date date)
{
    int64_t year = date.year - (date.month <= 2);
    int64_t era = floor_div(year, 400);
    int year_of_era = (int)(year - era * 400);
    int month_from_march = date.month > 2 ? date.month - 3 : date.month + 9;
    int day_of_year = (153 * month_from_march + 2) / 5 + date.day - 1;
    int day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;

    return era * DAYS_PER_ERA + day_of_era - DAYS_TO_UNIX_EPOCH;
}

/* Writes `width` digits of `number`. */
static char *
put_digits(char *to, int number, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        to[i] = (char)('0' + number % 10);
        number /= 10;
    }
    return to + width;
}

static char *
put_char(char *to, char c)
{
    *to = c;
    return to + 1;
}

void
time_text_format(int64_t unix_us, char text[DB_TIME_TEXT_BYTES])
{
    if (unix_us < TIME_US_MIN)
        unix_us = TIME_US_MIN; /* RFC 3339 has four digits for a year */
    if (unix_us > TIME_US_MAX)
        unix_us = TIME_US_MAX;

    int64_t ms = floor_div(unix_us, TIME_US_PER_MS);
    int64_t seconds = floor_div(ms, 1000);
    int64_t days = floor_div(seconds, SECONDS_PER_DAY);
    int second_of_day = (int)(seconds - days * SECONDS_PER_DAY);
    struct date date = date_from_days(days);

    char *to = put_char(put_digits(text, date.year, 4), '-');
    to = put_char(put_digits(to, date.month, 2), '-');
    to = put_char(put_digits(to, date.day, 2), 'T');
    to = put_char(put_digits(to, second_of_day / 3600, 2), ':');
    to = put_char(put_digits(to, second_of_day / 60 % 60, 2), ':');
    to = put_char(put_digits(to, second_of_day % 60, 2), '.');
    to = put_char(put_digits(to, (int)(ms - seconds * 1000), 3), 'Z');
    *to = '\0';
}

void
db_time_format(struct db_time time, char text[DB_TIME_TEXT_BYTES])
{
    time_text_format(time.us, text);
}

/* A reader that goes bad at the first thing that is not as expected, and stays bad. */
struct reader {
    const char *at;
    const char *end;
    bool bad;
};

static int
take_digits(struct reader *r, int width, int least, int most)
{
    int number = 0;

    for (int i = 0; i < width; i++, r->at++) {
        if (r->bad || r->at == r->end || *r->at < '0' || *r->at > '9') {
            r->bad = true;
            return 0;
        }
        number = number * 10 + (*r->at - '0');
    }
    r->bad = number < least || number > most;
    return number;
}

static char
peek(const struct reader *r)
{
    return r->bad || r->at == r->end ? '\0' : *r->at;
}

/* Takes one of two characters: RFC 3339 lets T and Z be small. */
static void
take_either(struct reader *r, char a, char b)
{
    if (peek(r) == a || peek(r) == b)
        r->at++;
    else
        r->bad = true;
}

static int
days_in_month(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month - 1] + (month == 2 && leap);
}

static struct date
take_date(struct reader *r)
{
    struct date date;

    date.year = take_digits(r, 4, 0, 9999);
    take_either(r, '-', '-');
    date.month = take_digits(r, 2, 1, 12);
    take_either(r, '-', '-');
    date.day = take_digits(r, 2, 1, r->bad ? 31 : days_in_month(date.year, date.month));
    return date;
}

/* 60 is a leap second; it reads as the first of the next minute, as Unix time has it. */
static int
take_time_of_day(struct reader *r)
{
    int hour = take_digits(r, 2, 0, 23);
    take_either(r, ':', ':');
    int minute = take_digits(r, 2, 0, 59);
    take_either(r, ':', ':');
    return hour * 3600 + minute * 60 + take_digits(r, 2, 0, 60);
}

static int
take_fraction_us(struct reader *r)
{
    int us = 0;
    int digits = 0;

    if (peek(r) != '.')
        return 0;
    r->at++;
    for (; peek(r) >= '0' && peek(r) <= '9'; digits++) {
        if (digits == 6) {
            r->bad = true;
            return 0;
        }
        us = us * 10 + (*r->at++ - '0');
    }
    r->bad = r->bad || digits == 0;
    for (; digits < 6; digits++)
        us *= 10;
    return us;
}

static int
take_offset_seconds(struct reader *r)
{
    char sign = peek(r);

    if (sign != '+' && sign != '-') {
        take_either(r, 'Z', 'z');
        return 0;
    }
    r->at++;
    int hours = take_digits(r, 2, 0, 23);
    take_either(r, ':', ':');
    int seconds = hours * 3600 + take_digits(r, 2, 0, 59) * 60;
    return sign == '-' ? -seconds : seconds;
}

bool
db_time_parse(struct slice text, struct db_time *time)
{
    struct reader r = { text.ptr, text.ptr + text.len, false };

    struct date date = take_date(&r);
    take_either(&r, 'T', 't');
    int second_of_day = take_time_of_day(&r);
    int us = take_fraction_us(&r);
    int offset = take_offset_seconds(&r);
    if (r.bad || r.at != r.end)
        return false;
    time->us =
        (days_from_date(date) * SECONDS_PER_DAY + second_of_day - offset) * TIME_US_PER_S + us;
    return true;
}
