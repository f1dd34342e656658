{% for I in range(DEPTH) %}
[{{SECTION_NAME}}_{{I}}]
{% if I == 0 %}
Input={{INPUT}}
{% endif %}
{% if I != 0 %}
Input={{SECTION_NAME}}_$({{I}}-1)
{% endif %}
Type=Conv
KernelSize=1
NbOutputs={{OUTPUTS}}
ActivationFunction=Rectifier
{% endfor %}
{% if POOL exists %}
[{{SECTION_NAME}}_pool]
Input={{SECTION_NAME}}_0
Type=Pool
PoolSize=2
Stride=2
NbOutputs={{OUTPUTS}}
Mapping.Size=1
Pooling=Max
{% endif %}
