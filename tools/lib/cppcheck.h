/* SPDX-License-Identifier: Apache-2.0 */
/* cppcheck.h: loops of jansson and uthash as cppcheck may read them: it does not see their headers. Nothing else includes this. */
#pragma once
#define json_array_foreach(a, i, v) \
	for ((i) = 0; (i) < json_array_size(a) && ((v) = json_array_get(a, i)); (i)++)
#define json_object_foreach(o, k, v)                                               \
	for ((k) = json_object_iter_key(json_object_iter(o));                      \
		(k) && ((v) = json_object_iter_value(json_object_key_to_iter(k))); \
		(k) = json_object_iter_key(json_object_iter_next(o, json_object_key_to_iter(k))))
#define json_object_foreach_safe(o, n, k, v)                                       \
	for ((k) = json_object_iter_key(json_object_iter(o)), (n) = NULL;          \
		(k) && ((v) = json_object_iter_value(json_object_key_to_iter(k))); \
		(k) = json_object_iter_key(n))
#define DL_FOREACH(head, e)	      for ((e) = (head); (e); (e) = (e)->next)
#define DL_FOREACH2(head, e, n)	      for ((e) = (head); (e); (e) = (e)->n)
#define DL_FOREACH_SAFE(head, e, tmp) for ((e) = (head); (e) && ((tmp) = (e)->next, 1); (e) = (tmp))
#define DL_FOREACH_SAFE2(head, e, tmp, n) \
	for ((e) = (head); (e) && ((tmp) = (e)->n, 1); (e) = (tmp))
#define LL_FOREACH(head, e)	    for ((e) = (head); (e); (e) = (e)->next)
#define HASH_ITER(hh, head, e, tmp) for ((e) = (head), (tmp) = NULL; (e); (e) = (tmp), (tmp) = NULL)
