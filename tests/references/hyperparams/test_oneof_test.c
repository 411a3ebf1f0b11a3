/* Model Garden, official/modeling/hyperparams/oneof_test.py: a row that selects one of the members
 * whose names are its choices. */
#include "settings_of.h"

typedef struct backbone {
    int type;
    struct resnet {
        int64_t model_depth;
    } resnet;
    int64_t not_resnet;
} backbone;

typedef struct output_layer {
    int type;
    int64_t single, multi_head;
} output_layer;

typedef struct network {
    backbone backbone;
    output_layer output_layer;
} network;

static const char *const backbones[] = { "resnet", "not_resnet", NULL };
static const char *const layers[] = { "single", "multi_head", NULL };
static const et_field resnet_rows[] = {
    ET_FIELD_INT(struct resnet, model_depth, 50, 1, 1000, "depth"), ET_FIELD_END
};
static const et_fields resnet_table = { "resnet", resnet_rows };
static const et_field backbone_rows[] = {
    ET_FIELD_CHOICE(backbone, type, 0, backbones, "which", .selects = true),
    ET_FIELD_STRUCT(backbone, resnet, &resnet_table, "resnet"),
    ET_FIELD_INT(backbone, not_resnet, 2, 0, 1000, "not resnet"),
    ET_FIELD_END,
};
static const et_fields backbone_table = { "backbone", backbone_rows };
static const et_field layer_rows[] = {
    ET_FIELD_CHOICE(output_layer, type, 0, layers, "which", .selects = true),
    ET_FIELD_INT(output_layer, single, 1, 0, 100000, "single"),
    ET_FIELD_INT(output_layer, multi_head, 2, 0, 100000, "multi head"),
    ET_FIELD_END,
};
static const et_fields layer_table = { "output layer", layer_rows };
static const et_field network_rows[] = {
    ET_FIELD_STRUCT(network, backbone, &backbone_table, "backbone"),
    ET_FIELD_STRUCT(network, output_layer, &layer_table, "output layer"),
    ET_FIELD_END,
};
static const et_fields network_table = { "network", network_rows };

static void test_oneof_test__to_dict(void **state)
{
    (void)state;
    network options;
    et_settings settings = { .table = &network_table, .options = &options, .arena = arena };
    static const char params[] = "{backbone: {type: resnet, resnet: {model_depth: 50}}, "
                                 "output_layer: {type: single, single: 1000}}";
    et_fields_defaults(&network_table, &options);
    assert_ok(et_settings_override(&settings, params, error));
    assert_settings(&settings, params);
}

static void test_oneof_test__get_oneof(void **state)
{
    (void)state;
    backbone options;
    const et_settings settings = { .table = &backbone_table, .options = &options, .arena = arena };
    et_fields_defaults(&backbone_table, &options);
    const et_value *dict = et_settings_dict(&settings, arena);
    const et_value *chosen = et_value_get(dict, et_value_get(dict, "type")->string);
    assert_int_equal(chosen->kind, ET_VALUE_DICT);
    assert_int_equal(chosen->count, 1);
    assert_int_equal(et_value_get(chosen, "model_depth")->integer, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oneof_test__to_dict),
        cmocka_unit_test(test_oneof_test__get_oneof),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
