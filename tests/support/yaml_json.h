#ifndef SUPPORT_YAML_JSON_H
#define SUPPORT_YAML_JSON_H

#include <jansson.h>

/* Read a YAML file as JSON (libyaml): plain scalars become null, booleans and numbers by YAML's core schema, the rest
 * strings. Gives the value; json_decref(). Fails the test when the file cannot be read or is no YAML. */
json_t *yaml_json_load(const char *path);

#endif
