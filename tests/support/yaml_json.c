#include "yaml_json.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static json_t *convert(yaml_document_t *doc, int index);

static json_t *convert_scalar(const yaml_node_t *node)
{
    const char *text = (const char *)node->data.scalar.value;
    char *end;

    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return json_stringn(text, node->data.scalar.length);
    if (strcmp(text, "null") == 0 || strcmp(text, "~") == 0 || *text == '\0')
        return json_null();
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return json_boolean(*text == 't');
    long long integer = strtoll(text, &end, 10);
    if (*end == '\0')
        return json_integer(integer);
    double real = strtod(text, &end);
    if (*end == '\0' && strspn(text, "+-.0123456789eE") == strlen(text))
        return json_real(real);
    return json_string(text);
}

static json_t *convert_mapping(yaml_document_t *doc, const yaml_node_t *node)
{
    json_t *object = json_object();

    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(doc, pair->key);
        cr_assert(key && key->type == YAML_SCALAR_NODE, "a key that is no scalar");
        json_object_set_new(object, (const char *)key->data.scalar.value, convert(doc, pair->value));
    }
    return object;
}

static json_t *convert(yaml_document_t *doc, int index)
{
    const yaml_node_t *node = yaml_document_get_node(doc, index);
    json_t *array;

    cr_assert_not_null(node);
    switch (node->type) {
    case YAML_MAPPING_NODE:
        return convert_mapping(doc, node);
    case YAML_SEQUENCE_NODE:
        array = json_array();
        for (const yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top;
             item++)
            json_array_append_new(array, convert(doc, *item));
        return array;
    case YAML_SCALAR_NODE:
        return convert_scalar(node);
    case YAML_NO_NODE:
        break;
    }
    return json_null();
}

json_t *yaml_json_load(const char *path)
{
    yaml_parser_t parser;
    yaml_document_t doc;
    FILE *f = fopen(path, "r");

    cr_assert_not_null(f, "cannot read %s", path);
    cr_assert(yaml_parser_initialize(&parser));
    yaml_parser_set_input_file(&parser, f);
    cr_assert(yaml_parser_load(&parser, &doc), "%s, line %zu: %s", path, parser.problem_mark.line + 1, parser.problem);
    const yaml_node_t *root = yaml_document_get_root_node(&doc);
    cr_assert_not_null(root, "%s is empty", path);
    json_t *value = convert(&doc, 1); /* the root is the first node */
    yaml_document_delete(&doc);
    yaml_parser_delete(&parser);
    cr_assert_eq(fclose(f), 0);
    return value;
}
