/*
 * map_rows.h - the columns of read_seat_map and read_areas, for rows that a test makes up
 * (fake_rows.h).
 */
#ifndef HOLDFAST_TESTS_MAP_ROWS_H
#define HOLDFAST_TESTS_MAP_ROWS_H

#define SEAT_COLUMNS                                                                               \
    "seat:text section:text row:text number:text type:text price:int8 x:float4 y:float4 "          \
    "status:text in_payment:bool version:int8 until:time "                                         \
    "aisle_after:bool accessible:bool focal_x:float4 focal_y:float4 usr:text"
#define AREA_COLUMNS "area:text name:text capacity:int4 held:int4 sold:int4 price:int8 version:int8"

#endif
