{% set KIND %}Conv{% endset %}
{% block BLOCK %}
[{{SECTION_NAME}}_{{#}}]
Input={{.IN}}
Type={{KIND}}
KernelSize=3
NbOutputs={{.OUT}}
{% if .STRIDE exists %}Stride={{.STRIDE}}{% else %}Stride=1{% endif %}
{% endblock %}
