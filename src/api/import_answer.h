/*
 * import_answer.h - what a client hears of a CSV file that is wrong.
 */
#ifndef HOLDFAST_IMPORT_ANSWER_H
#define HOLDFAST_IMPORT_ANSWER_H

struct api_call;
struct import_errors;

/* 400 with the errors, each with its line, in the order of the lines. The call is gone. */
void import_answer_errors(struct api_call *call, struct import_errors *errors);

#endif
